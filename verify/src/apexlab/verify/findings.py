"""All that verify can say: stable codes, each with its severity, its sentence and its fix.

Data only. Codes are kebab-case, are part of the report's contract, and never change meaning.
Fields in braces are filled in by `finding`; a test fills in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apexlab.verify.report import ERROR, INCOMPLETE, INFO, WARNING, Finding

_REBUILD = "Build Apex again against this torch: {rebuild}."
_REINSTALL = "Install the wheel again, or build it again: {rebuild}."
# What to do about an absent extension: was it lost by the build, or later?
NOT_BUILT = "The build dropped it: {rebuild}, and look for a warning about it in the log."
LOST_LATER = "It was built, and lost later: " + _REINSTALL[0].lower() + _REINSTALL[1:]
_LIST = "Build again with {arch} in the list of architectures (ARCHS= or --archs)."


@dataclass(frozen=True)
class Kind:
    """One row: the code, how bad it is, what is said, and what to do."""

    code: str
    severity: str
    message: str
    fix: str


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
         "Repair torch first; nothing can be said about Apex before."),
    Kind("torch-replaced", ERROR, "Apex was built for torch {built_for}, and torch {torch} is "
         "installed: something replaced it later.{symbol}",
         "{install}, or rebuild with {rebuild}."),
    Kind("torch-differs", ERROR, "The wheel was built for torch {built_for}, and torch {torch} is "
         "installed here.{symbol}", "{install}, or rebuild with {rebuild}."),
    Kind("torch-shadowed", ERROR, "import torch does not give the torch that was judged, {judged}, "
         "but the one in {other}.", "Remove that one, or its folder from PYTHONPATH."),
    Kind("package-missing", ERROR, "The extensions are there, but the Python package apex is not: "
         "nothing can call them.", _REINSTALL),
    Kind("package-shadowed", ERROR, "import apex gives {package}, while extensions lie in "
         "{folder}: a clone or another installation comes first.",
         "Remove that one, or its folder from PYTHONPATH."),
    Kind("clone-here", WARNING, "The current folder has a package apex of its own ({package}): a "
         "program that is started here imports that one, which was not judged.",
         "Start your programs in another folder."),
    Kind("installed-twice", WARNING, "Apex is there with {count} versions, {versions}: what an "
         "interrupted uninstall left. The first was taken for the one that is installed.",
         "Run pip uninstall apex until nothing is left, and install the wheel again."),
    Kind("other-python", INCOMPLETE, "{where} is for Python {python}, which is not here (this is "
         "{here}): its extensions cannot be imported.",
         "Run this with Python {python}, or ask for --level static."),
    Kind("other-platform", INCOMPLETE, "{where} is for {platform}, and this machine is {here}: "
         "its extensions cannot be imported.",
         "Run this on such a machine, or ask for --level static."),
    # Presence.
    Kind("not-installed", ERROR, "{name} is absent, although {why}.",
         "{advice}"),
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
         "({arch}).", _LIST + " Setting it at run time has no effect."),
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
    Kind("undefined-symbol", ERROR, "{name} needs {symbol}, which nothing here defines{more}.",
         "A source file or a library was left out of the build: {rebuild}."),
    Kind("link-unchecked", INCOMPLETE, "Whether {name} fits could not be told, because {library} "
         "cannot be read.", "Install torch again."),
    Kind("torch-not-imported", ERROR, "{name} does not find torch's own libraries ({library}).",
         "Install torch again; an extension works only after import torch."),
    Kind("libstdcxx-too-old", ERROR, "{name} needs {version}, which the libstdc++ here does not "
         "have.", "Build in the image that runs it. A conda environment may also hide a newer "
         "libstdc++."),
    Kind("glibc-too-old", ERROR, "{name} needs {version}, which the C library here does not have.",
         "Build in the image that runs it, or in an older one."),
    Kind("exec-stack", ERROR, "{name} asks for an executable stack, which this system refuses.",
         "Build again: {rebuild}."),
    # What happened when it was imported.
    Kind("crash", ERROR, "{name} crashes when it is imported ({signal}).{output}",
         "Build again: {rebuild}."),
    Kind("exit", ERROR, "{name} ends the process when it is imported (exit status {status})."
         "{output}", "Build again: {rebuild}."),
    Kind("hang", ERROR, "{name} does not come back from its import: it was stopped after "
         "{seconds:g} seconds.", "Build again: {rebuild}."),
    Kind("no-driver", ERROR, "{name} asks for a GPU driver when it is imported: {error}",
         "Start the container with --gpus all."),
    Kind("import-error", ERROR, "{name} cannot be imported: {error}", "Build again: {rebuild}."),
    Kind("shadowed", ERROR, "import {name} does not give the file that was judged but {other}.",
         "Remove that file, or the folder from PYTHONPATH."),
    Kind("not-loaded", INCOMPLETE, "{name} was not imported: {reason}.", "Run it again."),
    # The level run.
    Kind("no-gpu", INCOMPLETE, "No GPU is visible, so it was not checked that the kernels run; "
         "everything up to load is {so_far}.", "Ask for what can be "
         "checked here: --level load. With a GPU (docker run --gpus all ...) this version also "
         "checks that there is code for it, and not yet that the code runs."),
    Kind("run-unproven", INCOMPLETE, "This version of apexlab checks what is there and that it "
         "loads; it does not prove yet that the kernels run. Everything up to load is {so_far}.",
         "Ask for what it checks: --level load."),
    Kind("no-record", INFO, "There is no build record, so it was judged against {basis}.",
         "Give the record with --record, or name what you need with --require."),
)  # fmt: skip

BY_CODE = {kind.code: kind for kind in KINDS}

# Codes that predict what the loader does: when the module did load, the loader was right.
LOADER_DECIDES = frozenset({
    "cudart-missing", "torch-cpu-only", "driver-lib-missing", "library-missing",
    "torch-abi-mismatch", "undefined-symbol", "link-unchecked", "not-a-module",
})
# Files that are not imported: the reading of them already said that it cannot work.
NOT_LOADABLE = frozenset({"wrong-file", "wrong-machine", "wrong-python-abi"})


def finding(code: str, **values: Any) -> Finding:
    """The finding `code`, its sentences filled in; `name` becomes the extension it concerns."""
    kind = BY_CODE[code]
    return Finding(
        code, kind.severity, kind.message.format(**values), kind.fix.format(**values),
        (values["name"],) if "name" in values else ())
