"""How the stand-in breaks on purpose: each mode makes a real wheel with that fault.

The mode comes from the environment variable STANDIN_SABOTAGE or, without it, from the file
`sabotage` beside setup.py. It is `MODE`, or `MODE:EXTENSION` to strike another extension than the
mode's own; several of them, separated by blanks, make several faults in one wheel.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Mode:
    """One fault, and the extension it strikes.

    `macro` is defined when the extension's files are compiled. `before` and `after` name functions
    of this module: the first changes the list of extensions, the second what was built.
    """

    extension: str = "fused_layer_norm_cuda"
    macro: str = ""
    before: str = ""
    after: str = ""


MODES = {
    "python-only": Mode(extension="", before="drop_all"),
    "drop-extension": Mode(before="drop"),
    "undefined-symbol": Mode(macro="STANDIN_UNDEFINED_SYMBOL"),
    "missing-libcudart": Mode(before="link_other_libcudart"),
    "no-device-code": Mode(macro="STANDIN_NO_DEVICE_CODE", before="drop_cuda_sources"),
    "wrong-arch": Mode(before="compile_for_other_arch"),
    "wrong-suffix": Mode(after="rename_for_other_python"),
    "truncated": Mode(after="cut_in_half"),
    "wrong-numbers": Mode(macro="STANDIN_WRONG_NUMBERS"),
    "nan-numbers": Mode(macro="STANDIN_NAN_NUMBERS"),
    "zeros-on-second-device": Mode(macro="STANDIN_ZEROS_ON_SECOND_DEVICE"),
    "fallback-for-shape": Mode(extension="", after="fall_back_for_some_shapes"),
    "torch-kernel": Mode(extension="", after="fall_back_for_all_shapes"),
    "torch-adam": Mode(extension="", after="step_by_torch"),
    "crash-on-import": Mode(macro="STANDIN_CRASH_ON_IMPORT"),
    "hang-on-import": Mode(macro="STANDIN_HANG_ON_IMPORT"),
    "other-abi": Mode(macro="STANDIN_OTHER_ABI"),
}


@dataclass(frozen=True)
class Sabotage:
    """Faults to make: (mode, extension) pairs. None of them is a sound build."""

    faults: tuple

    def before(self, extensions):
        """The extensions to build, changed as the modes ask."""
        for name, struck_name in self.faults:
            mode = MODES[name]
            struck = [e for e in extensions if e.name == struck_name]
            if mode.macro:
                for extension in struck:
                    define(extension, mode.macro)
            if mode.before:
                extensions = STEPS[mode.before](extensions, struck)
        return extensions

    def after(self, build_lib):
        """Changes what was built, in `build_lib`."""
        for name, struck_name in self.faults:
            if step := MODES[name].after:
                files = [file for file in sorted(Path(build_lib).glob("*.so"))
                         if file.name.split(".")[0].removeprefix("_") == struck_name]
                STEPS[step](files, Path(build_lib))


def chosen():
    """The Sabotage asked for. An unknown mode ends the build: a typo must not give a sound one."""
    file = TREE / "sabotage"
    text = os.environ.get("STANDIN_SABOTAGE") or (file.read_text() if file.exists() else "")
    faults = []
    for word in text.split():
        name, _, extension = word.partition(":")
        if name not in MODES:
            sys.exit(f"unknown sabotage {name!r}; known are: {', '.join(MODES)}")
        faults.append((name, extension or MODES[name].extension))
    return Sabotage(tuple(faults))


def define(extension, macro):
    """Defines `macro` for both compilers."""
    value = macro
    if macro == "STANDIN_OTHER_ABI":
        import torch

        value = f"{macro}={0 if torch.compiled_with_cxx11_abi() else 1}"
    for flags in extension.extra_compile_args.values():
        flags.append(f"-D{value}")


def drop_all(extensions, struck):
    return []


def drop(extensions, struck):
    for extension in struck:
        print(f"Warning: skipping {extension.name}: its requirements were not found")
    return [e for e in extensions if e not in struck]


def drop_cuda_sources(extensions, struck):
    for extension in struck:
        extension.sources = [s for s in extension.sources if not s.endswith(".cu")]
    return extensions


def compile_for_other_arch(extensions, struck):
    # torch adds no architectures of its own when a flag for nvcc names one.
    asked = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    other = next(arch for arch in ("7.5", "8.0", "9.0") if arch not in asked).replace(".", "")
    for extension in struck:
        extension.extra_compile_args["nvcc"].append(f"-gencode=arch=compute_{other},code=sm_{other}")
    return extensions


def link_other_libcudart(extensions, struck):
    # A library of that name exists while linking only, as with a runtime left behind at the build.
    folder = Path(tempfile.mkdtemp(prefix="standin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    stub = folder / "libcudart.so.99"
    compiler = os.environ.get("CC", "gcc").split()
    subprocess.run([*compiler, "-shared", "-Wl,-soname,libcudart.so.99", "-x", "c", "/dev/null",
                    "-o", str(stub)], check=True)
    for extension in struck:
        extension.libraries = [name for name in extension.libraries if name != "cudart"]
        extension.extra_link_args += ["-Wl,--no-as-needed", str(stub)]
    return extensions


def rename_for_other_python(files, build_lib):
    tag = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
    other = f"cpython-{sys.version_info[0]}{sys.version_info[1] - 1}"
    for file in files:
        if tag not in file.name:
            sys.exit(f"wrong-suffix: {file.name} carries no tag that could be another one")
        file.rename(file.with_name(file.name.replace(tag, other)))


def cut_in_half(files, build_lib):
    for file in files:
        os.truncate(file, file.stat().st_size // 2)


def fall_back_for_some_shapes(files, build_lib):
    shapes = build_lib / "apex" / "normalization" / "_shapes.py"
    shapes.write_text(
        '"""Sabotaged: other widths than powers of two run PyTorch\'s code."""\n\n\n'
        "def fits(width):\n    return width & (width - 1) == 0\n"
    )


def fall_back_for_all_shapes(files, build_lib):
    shapes = build_lib / "apex" / "normalization" / "_shapes.py"
    shapes.write_text(
        '"""Sabotaged: every width runs PyTorch\'s code."""\n\n\n'
        "def fits(width):\n    return False\n"
    )


TORCH_ADAM = '''"""Sabotaged: the right class, which needs amp_C, and torch's own fused kernels."""

import torch

from .._compiled import module


class FusedAdam(torch.optim.AdamW):
    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8,
                 adam_w_mode=True, weight_decay=0.0, amsgrad=False, set_grad_none=True,
                 capturable=False, master_weights=False):
        module("amp_C")
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                         fused=True)
'''


def step_by_torch(files, build_lib):
    (build_lib / "apex" / "optimizers" / "fused_adam.py").write_text(TORCH_ADAM)


STEPS = {
    step.__name__: step
    for step in (drop_all, drop, drop_cuda_sources, compile_for_other_arch, link_other_libcudart,
                 rename_for_other_python, cut_in_half, fall_back_for_some_shapes,
                 fall_back_for_all_shapes, step_by_torch)
}
