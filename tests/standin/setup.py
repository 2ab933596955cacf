"""Builds the stand-in: Apex's build interface and behaviour, with small kernels of our own.

Without a flag it builds Python code only and says nothing about it, since that is what the tests
are about. STANDIN_LIST=1 prints the extensions that would be built, as JSON, and ends.
STANDIN_ONLY=A,B builds no others of those that were asked for, for tests that need one alone.
"""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import torch
from setuptools import find_packages, setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

TREE = Path(__file__).resolve().parent
# A frontend may run this file without its folder on the path.
sys.path.insert(0, str(TREE))
import layout  # noqa: E402
import sabotage  # noqa: E402

FLAGS = ("cpp_ext", "cuda_ext", "deprecated_fused_adam")

# flag -> module -> sources under csrc/. Each has files of its own, since torch names object files
# after them. An empty.cu gives a fatbin without a kernel; apex_C has no CUDA source at all.
MODULES = {
    "cpp_ext": {"apex_C": ["apex_C/binding.cpp"]},
    "cuda_ext": {
        "amp_C": ["amp_C/binding.cpp", "amp_C/kernels.cu"],
        "syncbn": ["syncbn/binding.cpp", "syncbn/kernels.cu"],
        "fused_layer_norm_cuda": [
            "fused_layer_norm_cuda/binding.cpp", "fused_layer_norm_cuda/kernels.cu"],
        "mlp_cuda": ["mlp_cuda/binding.cpp", "mlp_cuda/kernels.cu"],
        "fused_dense_cuda": ["fused_dense_cuda/binding.cpp", "fused_dense_cuda/empty.cu"],
        "scaled_upper_triang_masked_softmax_cuda": [
            "softmax/upper_triang_binding.cpp", "softmax/upper_triang.cu"],
        "generic_scaled_masked_softmax_cuda": [
            "softmax/generic_binding.cpp", "softmax/generic.cu"],
        "scaled_masked_softmax_cuda": ["softmax/masked_binding.cpp", "softmax/masked.cu"],
        "scaled_softmax_cuda": ["softmax/scaled_binding.cpp", "softmax/scaled.cu"],
        "fused_rotary_positional_embedding": ["rope/binding.cpp", "rope/kernels.cu"],
        "fused_weight_gradient_mlp_cuda": ["wgrad/binding.cpp", "wgrad/empty.cu"],
    },
    "deprecated_fused_adam": {
        "fused_adam_cuda": ["fused_adam_cuda/binding.cpp", "fused_adam_cuda/kernels.cu"],
    },
}


def variables_to_flags():
    """Turns APEX_CPP_EXT=1 and its siblings into flags; any other value is ignored."""
    for flag in FLAGS:
        if os.environ.get(f"APEX_{flag.upper()}") == "1" and f"--{flag}" not in sys.argv:
            sys.argv.append(f"--{flag}")
    jobs = os.environ.get("APEX_PARALLEL_BUILD")
    if jobs and "--parallel" not in sys.argv:
        sys.argv += ["--parallel", jobs]


def take_flags():
    """The flags in sys.argv and the N of `--parallel N` (1 without it), taken out of sys.argv,
    since setuptools would refuse them."""
    parallel = 1
    if "--parallel" in sys.argv:
        at = sys.argv.index("--parallel")
        parallel = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    taken = [flag for flag in FLAGS if f"--{flag}" in sys.argv]
    for flag in taken:
        sys.argv.remove(f"--{flag}")
    return taken, parallel


def nvcc_version():
    """(major, minor) of the toolkit's nvcc."""
    text = subprocess.run([CUDA_HOME + "/bin/nvcc", "-V"], capture_output=True, text=True,
                          check=True).stdout
    return tuple(int(part) for part in re.search(r"release (\d+)\.(\d+)", text).groups())


def check_versions(nvcc):
    """--cuda_ext compares nvcc with the CUDA of torch, major and minor."""
    if torch.version.cuda is None:
        raise RuntimeError("--cuda_ext was requested, but this torch was built without CUDA")
    built_with = tuple(int(part) for part in torch.version.cuda.split(".")[:2])
    if nvcc != built_with:
        raise RuntimeError(
            f"nvcc is of CUDA {nvcc[0]}.{nvcc[1]}, and torch was built with {torch.version.cuda}: "
            "the extensions need the same version")


def extension(name, sources):
    """The Extension of one module. A binding is not worth optimizing, and debug information would
    double the time of its compilation; apex_C alone has some, so that stripping has work to do."""
    files = [f"csrc/{source}" for source in sources]
    if name == "apex_C":
        return CppExtension(name, files, extra_compile_args={"cxx": ["-O0", "-g"]})
    flags = {"cxx": ["-O0", "-g0"], "nvcc": ["-O3"]}
    return CUDAExtension(name, files, extra_compile_args=flags, py_limited_api=libraries)


variables_to_flags()
requested, parallel = take_flags()
libraries = layout.uses_libraries()
# Apex asks nvcc for its version whatever was requested, so that even a Python-only build needs one;
# in the layout with libraries only CUDA code does.
if not libraries or set(requested) - {"cpp_ext"}:
    version = nvcc_version()
    if "cuda_ext" in requested:
        check_versions(version)

plan = sabotage.chosen()
extensions = [
    extension(name, sources) for flag in requested for name, sources in MODULES[flag].items()
]
if only := os.environ.get("STANDIN_ONLY"):
    extensions = [e for e in extensions if e.name in only.split(",")]
extensions = plan.before(extensions)
if libraries:
    extensions = layout.as_libraries(extensions)

if os.environ.get("STANDIN_LIST") == "1":
    print(json.dumps([e.name for e in extensions]))
    sys.exit(0)


class Build(BuildExtension):
    """torch's build, with `parallel` extensions at a time, then the faults in finished files."""

    def initialize_options(self):
        super().initialize_options()
        if parallel > 1:
            self.parallel = parallel

    def build_extension(self, ext):
        # torch writes one build.ninja into build_temp, so extensions that are built side by side
        # need a folder each.
        builder = self
        if parallel > 1:
            builder = copy.copy(self)
            builder.build_temp = str(Path(self.build_temp) / ext.name)
        BuildExtension.build_extension(builder, ext)

    def run(self):
        super().run()
        plan.after(self.build_lib)


setup(
    name="apex",
    version="0.1",
    description="Stand-in with Apex's build interface, for tests; not Apex",
    packages=find_packages(include=["apex", "apex.*"], exclude=[] if libraries else [layout.SHIMS]),
    ext_modules=extensions,
    # Libraries have nothing to do with a version of Python, and their wheel fits them all.
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if libraries else {},
    cmdclass={"build_ext": Build} if extensions else {},
)
