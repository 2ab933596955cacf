"""All that verify can say: stable codes, each with its severity, its sentence and its fix.

Data only. Codes are kebab-case, are part of the report's contract, and never change meaning.
Fields in braces are filled in by `finding`; a test fills in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apexlab.verify.report import (
    ERROR,
    FALLBACK,
    INCOMPLETE,
    INFO,
    LOAD,
    RUN,
    STATIC,
    WARNING,
    Finding,
)

_REBUILD = "Build Apex again against this torch: {rebuild}."
_REINSTALL = "Install the wheel again, or build it again: {rebuild}."
# What to do about an absent extension: was it lost by the build, or later?
NOT_BUILT = "The build dropped it: {rebuild}, and look for a warning about it in the log."
LOST_LATER = "It was built, and lost later: " + _REINSTALL[0].lower() + _REINSTALL[1:]
_LONGEST = 1000  # of what is filled in
_LIST = "Build again with {arch} in the list of architectures (ARCHS= or --archs)."


@dataclass(frozen=True)
class Kind:
    """One row: the code, how bad it is, what is said, what to do, and the lowest level at which
    it can appear."""

    code: str
    severity: str
    message: str
    fix: str
    level: str = STATIC


KINDS = (
    # The installation as a whole.
    Kind("apex-missing", ERROR, "Apex is not installed in {where}: neither the package nor an "
         "extension is there.", "Install the wheel that apexlab built, or use its image."),
    Kind("wrong-package", ERROR, "The installed apex {version} is not NVIDIA Apex but an unrelated "
         "package of the same name.", "Uninstall it (pip uninstall apex), then install the wheel "
         "that apexlab built."),
    Kind("python-only", ERROR, "Python-only build: 0 of {count} expected extensions are there, so "
         "everything would run PyTorch's own code.",
         "Build again so that the flags reach setup.py: {rebuild}, or APEX_CPP_EXT=1 "
         "APEX_CUDA_EXT=1 with a ref that knows these variables."),
    Kind("torch-missing", ERROR, "torch is not installed in {where}, and no extension of Apex "
         "works without it.", "Install the torch that this Apex was built for{record_torch}."),
    Kind("torch-unknown", INCOMPLETE, "No torch was found here, so it was not checked whether the "
         "extensions fit one{record_torch}.", "Run this where that torch is installed."),
    Kind("torch-broken", ERROR, "torch itself cannot be imported: {error}",
         "Repair torch first; nothing can be said about Apex before.", LOAD),
    Kind("torch-replaced", ERROR, "Apex was built for torch {built_for}, and torch {torch} is "
         "installed: something replaced it later.{symbol}",
         "{install}, or rebuild with {rebuild}."),
    Kind("torch-differs", ERROR, "The wheel was built for torch {built_for}, and torch {torch} is "
         "installed here.{symbol}", "{install}, or rebuild with {rebuild}."),
    Kind("torch-shadowed", ERROR, "import torch does not give the torch that was judged, {judged}, "
         "but the one in {other}.", "Remove that one, or its folder from PYTHONPATH.", LOAD),
    Kind("package-missing", ERROR, "The extensions are there, but the Python package apex is not: "
         "nothing can call them.", _REINSTALL),
    Kind("module-lost", ERROR, "{wrapper} was installed, and is gone: {file} is not there.{more}",
         _REINSTALL),
    Kind("package-shadowed", ERROR, "import apex gives {package}, while extensions lie in "
         "{folder}: a clone or another installation comes first.",
         "Remove that one, or its folder from PYTHONPATH."),
    Kind("installed-elsewhere", WARNING, "Apex is on the path more than once: {package} is "
         "imported, and {others} is hidden behind it.",
         "Uninstall the one that is not wanted, before a change of the path swaps them."),
    Kind("source-tree", WARNING, "import apex gives the source tree {folder} (an editable install, "
         "or a folder on PYTHONPATH) and no installation: whatever happens there happens to Apex.",
         "Build a wheel and install it. An editable install also loses its build options with "
         "setuptools 69 and later."),
    Kind("clone-here", WARNING, "The current folder has a package apex of its own ({package}): a "
         "program that is started here imports that one, which was not judged.",
         "Start your programs in another folder."),
    Kind("installed-twice", WARNING, "Apex is there with {count} versions, {versions}: what an "
         "interrupted uninstall left. The first was taken for the one that is installed.",
         "Run pip uninstall apex until nothing is left, and install the wheel again."),
    Kind("other-python", INCOMPLETE, "{where} is for Python {python}, which is not here (this is "
         "{here}): its extensions cannot be imported.",
         "Run this with Python {python}, or ask for --level static.", LOAD),
    Kind("other-platform", INCOMPLETE, "{where} is for {platform}, and this machine is {here}: "
         "its extensions cannot be imported.",
         "Run this on such a machine, or ask for --level static.", LOAD),
    # Presence.
    Kind("not-installed", ERROR, "{name} is absent, although {why}.",
         "{advice}"),
    Kind("flag-lost", ERROR, "{name} is absent, as is all that --{flag} builds, while other "
         "extensions are there: this flag did not reach setup.py.",
         "Build again: {rebuild}, or with {variable} and a ref that knows this variable."),
    Kind("shim-missing", ERROR, "{name} is a library for torch.ops ({file}), and the Python file "
         "apex/_extensions/{name}.py that loads it is absent: nothing can call it.", _REINSTALL),
    Kind("not-requested", INFO, "{name} was not asked for (no error): {note}.", ""),
    Kind("python-code", INFO, "{name} is Python code in this layout of Apex: there is nothing "
         "compiled to check.", ""),
    Kind("tampered", ERROR, "{name} is not the file that was built: its sha256 is {found}..., and "
         "the build record says {recorded}....", _REINSTALL),
    # The file.
    Kind("wrong-file", ERROR, "{name} is no usable library: {reason}.", _REINSTALL),
    Kind("unreadable-fatbin", ERROR, "The device code of {name} cannot be read: {reason}. That "
         "says nothing about whether it is there.", "If this file works, please report its "
         "toolkit version; otherwise build again: {rebuild}."),
    Kind("wrong-machine", ERROR, "{name} is for {machine}, where {here} is needed.",
         "Build on a machine of that kind: {rebuild}."),
    Kind("wrong-python-abi", ERROR, "{name} is there, but for {tag}: Python {python} does not see "
         "{file}.", "Build again with this Python: {rebuild}."),
    Kind("misplaced", ERROR, "{name} lies inside of the package ({file}), where import {name} does "
         "not look.", _REINSTALL),
    Kind("not-a-module", ERROR, "{name} has no PyInit_{name}{other}: Python cannot import it.",
         "The file was renamed, or built under another name: {rebuild}."),
    # Device code.
    Kind("no-device-code", ERROR, "{name} holds no device code at all: it was compiled without "
         "CUDA.", "Build again where nvcc is found, with the architectures set: {rebuild}."),
    Kind("no-kernels", ERROR, "{name} has machine code for {targets}, but no kernel in it.",
         "Build again from a complete source tree: {rebuild}."),
    Kind("fewer-architectures", ERROR, "{name} has no code for {missing}, which was asked for; it "
         "has {targets}.", "Build again; if this ref fixes the list of {name} by itself, the "
         "matrix has to say so."),
    Kind("no-kernel-image", ERROR, "{name} has code for {targets}, and none of it runs on {device} "
         "({arch}).", _LIST[:-1] + "{since}. Setting it at run time has no effect."),
    Kind("jit-only", WARNING, "{name} runs on {device} ({arch}) only by compiling its PTX at the "
         "first start.", _LIST),
    # What the loader would say.
    Kind("cudart-missing", ERROR, "{name} needs {library}, which is not here; torch is "
         "{torch}.", "Build for torch's CUDA version: {rebuild}. A second runtime beside torch's "
         "is no cure."),
    Kind("cuda-major-mismatch", ERROR, "{name} was built for CUDA {built}, and torch {torch} "
         "brings CUDA {cuda}.", _REBUILD),
    Kind("torch-cpu-only", ERROR, "{name} needs {library}, which torch {torch} does not have: it "
         "is a build without CUDA.", "Install the CUDA build of the same torch."),
    Kind("driver-lib-missing", ERROR, "{name} needs {library}, which comes with the driver.",
         "Start the container with --gpus all; never install this library in an image."),
    Kind("library-missing", ERROR, "{name} needs {library}, which is not here.",
         "Install the package that ships {library}."),
    Kind("torch-abi-mismatch", ERROR, "{name} was built for another torch: it needs {symbol}, "
         "which torch {torch} does not have{more}.", _REBUILD),
    Kind("cxx-abi-mismatch", ERROR, "{name} was built for the {abi} C++ ABI, and torch {torch} has "
         "the {torch_abi} one: it needs {symbol}{more}. Builds of the same torch version differ in "
         "this.", _REBUILD),
    Kind("undefined-symbol", ERROR, "{name} needs {symbol}, which nothing here defines{more}.",
         "A source file or a library was left out of the build: {rebuild}."),
    Kind("link-unchecked", INCOMPLETE, "Whether {name} fits could not be told, because {library} "
         "cannot be read.", "Install the package again that this library belongs to."),
    Kind("torch-not-imported", ERROR, "{name} does not find torch's own libraries ({library}).",
         "Install torch again; an extension works only after import torch."),
    Kind("library-broken", ERROR, "{name} needs {library}, which is there and cannot be loaded: "
         "{reason}.", "Install the package again that this library belongs to.", LOAD),
    Kind("libstdcxx-too-old", ERROR, "{name} needs {version}, and {library} stops at {newest}.",
         "Build in the image that runs it. A conda environment may also hide a newer "
         "libstdc++."),
    Kind("glibc-too-old", ERROR, "{name} needs {version}, and {library} stops at {newest}.",
         "Build in the image that runs it, or in an older one."),
    Kind("exec-stack", ERROR, "{name} asks for an executable stack, which this system refuses.",
         "Build again: {rebuild}.", LOAD),
    # What happened when it was imported.
    Kind("crash", ERROR, "{name} crashes when it is imported ({signal}).{output}",
         "Build again: {rebuild}.", LOAD),
    Kind("exit", ERROR, "{name} ends the process when it is imported (exit status {status})."
         "{output}", "Build again: {rebuild}.", LOAD),
    Kind("hang", ERROR, "{name} does not come back from its import: it was stopped after "
         "{seconds:g} seconds.", "Build again: {rebuild}.", LOAD),
    Kind("no-driver", ERROR, "{name} asks for a GPU driver when it is imported: {error}",
         "Start the container with --gpus all.", LOAD),
    Kind("fork-after-cuda", INCOMPLETE, "{name} could not be tried: something sets up CUDA as soon "
         "as torch is imported, and a forked process cannot use it then.",
         "Look for a sitecustomize.py or a .pth file that calls torch.cuda, and move that call.",
         LOAD),
    Kind("no-operations", ERROR, "{name} loads and registers no operation under torch.ops.apex: "
         "there is nothing to call.", "Build again: {rebuild}.", LOAD),
    Kind("torch-lacks", ERROR, "{wrapper} cannot be imported, because torch {torch} has no {what}: "
         "this commit of Apex and this torch do not fit. The extensions may be fine.",
         "Take the commit of Apex that the matrix names for this torch: {rebuild}; or another "
         "torch.", LOAD),
    Kind("wrapper-broken", ERROR, "{wrapper}, which is Apex's own Python code, cannot be imported: "
         "{error}", _REINSTALL, LOAD),
    Kind("error-swallowed", ERROR, "{name} loads, and yet {wrapper} could not import it and keeps "
         "that to itself until its first call: {error}", _REINSTALL, LOAD),
    Kind("import-error", ERROR, "{name} cannot be imported: {error}", "Build again: {rebuild}.",
         LOAD),
    Kind("shadowed", ERROR, "import {name} does not give the file that was judged but {other}.",
         "Remove that file, or the folder from PYTHONPATH."),
    Kind("not-loaded", INCOMPLETE, "{name} was not imported: {reason}.", "Run it again.", LOAD),
    # The level run.
    Kind("no-gpu", INCOMPLETE, "No GPU is visible ({why}), so it was not checked that the "
         "kernels run; everything up to load is {so_far}.", "Run it where there is one (docker run "
         "--gpus all ...), or ask for what can be checked here: --level load.", RUN),
    Kind("gpu-unusable", INCOMPLETE, "torch cannot use {device}: {error}.",
         "Look at nvidia-smi and the driver's version. Started as a container, it needs "
         "--gpus all.", RUN),
    Kind("gpu-busy", INCOMPLETE, "{call} could not be made on {device}: {what}.{more}",
         "Run it again while nothing else fills this GPU.", RUN),
    Kind("driver-too-old", INCOMPLETE, "{call} could not be made on {device}: {what}.{more}",
         "Install a newer driver, or take a build for an older CUDA.", LOAD),
    Kind("ptx-toolchain", ERROR, "{name} has only PTX for {device}, of a version that this driver "
         "does not know: {what}.{more}", "Install a newer driver, or build machine code for this "
         "GPU (ARCHS= or --archs): {rebuild}.", LOAD),
    Kind("no-kernel-image-run", ERROR, "{name} has no code that runs on {device}: {what}.{more}",
         "Build again with this GPU in the list of architectures: {rebuild}.", LOAD),
    Kind("call-failed", ERROR, "{call} fails on {device}: {what}.{more}",
         "Import works and the call does not, so this Apex and this torch do not fit, or the file "
         "is broken: {rebuild}, or take another commit of Apex.", RUN),
    Kind("wrong-numbers", ERROR, "{call} computes wrong numbers on {device}: {what}.{more}",
         "Do not train with this build. Build again: {rebuild}; if it stays, take another commit "
         "of Apex.", RUN),
    Kind("wrong-device", WARNING, "{call} goes wrong for tensors on {device} while {current} is "
         "the current device: {what}.{more}", "Call torch.cuda.set_device first, in each process, "
         "or take a later commit of Apex.", RUN),
    Kind("fallback", FALLBACK, "{call} ran without {name} on {device}. What ran is: {ran}.{more}",
         "Something else than the extension answers this call: look for a patched or second Python "
         "package apex, then build again: {rebuild}.", RUN),
    Kind("instrument-blind", INCOMPLETE, "No instrument sees which kernels {name} launches here "
         "({why}), so nothing is proven.", "Allow profiling of GPU programs and stop other "
         "profilers; or install a C compiler (cc), from which verify makes its second instrument.",
         RUN),
    Kind("call-unsupported", INCOMPLETE, "{name} is not proven: {call}: {what}.{more}",
         "Take a commit of Apex that has this call, or judge without this extension.", RUN),
    Kind("not-proven", INCOMPLETE, "Not proven on this GPU: {names}.",
         "Run it again with --json and look at the proofs; please report what you see.", RUN),
    Kind("no-call-known", INCOMPLETE, "{name} was imported and not called: verify knows no call "
         "of it for sure, and guesses none.", "Ask for --level load, or test it by a program of "
         "your own.", RUN),
    # A user's own model.
    Kind("model-broken", ERROR, "The model {factory} cannot be judged: {error}.",
         "Mend the factory: it has to return (model, optimizer, step), and step() to run one whole "
         "training step on the GPU.", RUN),
    Kind("model-without-apex", FALLBACK, "The model {factory} uses nothing of Apex: {what}, and no "
         "kernel of Apex ran in its training step.",
         "Put Apex's classes into the model (apex.normalization, apex.optimizers), or a version of "
         "its library that uses them; no rebuild of Apex will change that.", RUN),
    Kind("model-fallback", FALLBACK, "The model {factory} uses {classes}, and no kernel of {name} "
         "ran in its training step: torch's code ran instead.",
         "Look at how it is called: Apex's norms use torch's code inside torch.compile, while "
         "tracing and for tensors on the CPU, and its optimizers skip parameters without a "
         "gradient.", RUN),
    Kind("model-unseen", INCOMPLETE, "No instrument sees what {names} launches, so it is not known "
         "whether the model {factory} uses it.", "Allow profiling of GPU programs and stop other "
         "profilers; or install a C compiler (cc), from which verify makes its second "
         "instrument.", RUN),
    # Calls that Apex answers with PyTorch's code by its own design: said where it was seen.
    Kind("known-fallback-cpu", INFO, "On CPU tensors FusedLayerNorm and FusedRMSNorm use PyTorch's "
         "code (Apex's design).", "", RUN),
    Kind("known-fallback-compile", INFO, "Inside torch.compile FusedLayerNorm and FusedRMSNorm use "
         "PyTorch's code (Apex's design), so a compiled model does not run them.", "", RUN),
    Kind("known-fallback-softmax", INFO, "FusedScaleMaskSoftmax uses PyTorch's code for shapes "
         "that its kernels do not take (Apex's design); it was seen with 16 keys.", "", RUN),
    Kind("known-fallback-clip", INFO, "contrib.clip_grad scales BF16 gradients one by one with "
         "PyTorch's code (Apex's design).", "", RUN),
    Kind("no-record", INFO, "There is no build record, so it was judged against {basis}.",
         "Give the record with --record, or name what you need with --require."),
)  # fmt: skip

BY_CODE = {kind.code: kind for kind in KINDS}

# Codes that predict what the loader does: when the module did load, the loader was right.
LOADER_DECIDES = frozenset({
    "cudart-missing", "torch-cpu-only", "driver-lib-missing", "library-missing",
    "torch-abi-mismatch", "cxx-abi-mismatch", "undefined-symbol", "link-unchecked", "not-a-module",
    "libstdcxx-too-old", "glibc-too-old", "library-broken",
})
# What ends or stops a process that imports the extension, whoever does: Apex's Python side, too.
VIOLENT = frozenset({"crash", "exit", "hang", "wrong-file"})
# What CUDA and torch say at load and in a call, and the finding that it means.
CUDA_SAYS = (
    ("no kernel image is available", "no-kernel-image-run"),
    ("compiled with an unsupported toolchain", "ptx-toolchain"),
    ("driver version is insufficient", "driver-too-old"),
    ("NVIDIA driver on your system is too old", "driver-too-old"),
    ("out of memory", "gpu-busy"),
    ("devices are busy or unavailable", "gpu-busy"),
)
# What the file tells, and what a call says of the same cause.
SAID_BY_CALL = {"no-kernel-image": "no-kernel-image-run"}
# Files that are not imported: the reading of them already said that it cannot work.
NOT_LOADABLE = frozenset({
    "wrong-file", "wrong-machine", "wrong-python-abi", "misplaced", "shadowed"})


def finding(code: str, **values: Any) -> Finding:
    """The finding `code`, its sentences filled in; `name` becomes the extension it concerns."""
    kind = BY_CODE[code]
    # A file may have names of any length, and a message is to be read.
    values = {key: f"{value[:_LONGEST]}..." if isinstance(value, str) and len(value) > _LONGEST
              else value for key, value in values.items()}
    return Finding(
        code, kind.severity, kind.message.format(**values), kind.fix.format(**values),
        (values["name"],) if "name" in values else ())
