"""With the real nvcc and the real torch: what the small writers of the other tests imitate."""

import shutil
import subprocess
from pathlib import Path

import pytest

from apexlab.verify import check
from apexlab.verify import site as sites
from apexlab.verify.binary import read_binary
from apexlab.verify.found import find_files

pytestmark = pytest.mark.cuda

SOURCE = """
#include <cuda_runtime.h>
__global__ void first(float *x) { x[threadIdx.x] += 1; }
template <typename T> __global__ void second(T *x) { x[threadIdx.x] *= 2; }
__device__ __noinline__ float helper(float x) { return x * 3; }
__global__ void third(float *x) { *x = helper(*x); }
extern "C" void *PyModule_Create2(void *, int);
static struct { long refs; void *type, *init; long index; void *copy; const char *name, *doc;
                long size; void *more[5]; } definition = {1, 0, 0, 0, 0, "amp_C", 0, -1};
extern "C" void *PyInit_amp_C() { return PyModule_Create2(&definition, 1013); }
void launch(float *x, double *y) { first<<<1, 1>>>(x); second<<<1, 1>>>(x); second<<<1, 1>>>(y);
                                   third<<<1, 1>>>(x); }
"""


@pytest.fixture(scope="module")
def compiled(cuda_env, tmp_path_factory):
    """Compiles the source for the given targets; the shared object."""
    folder = tmp_path_factory.mktemp("nvcc")
    home = Path(cuda_env.cuda_home)

    def compile_(*flags: str) -> Path:
        target = folder / f"{abs(hash(flags))}.so"
        (folder / "source.cu").write_text(SOURCE)
        libraries = folder / "lib"
        libraries.mkdir(exist_ok=True)
        runtime = next(home.glob("lib*/libcudart.so.*"))
        if not (libraries / "libcudart.so").exists():
            (libraries / "libcudart.so").symlink_to(runtime)
        subprocess.run(
            [home / "bin/nvcc", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared",
             f"-L{libraries}", f"-L{runtime.parent}", *flags, "-o", target, folder / "source.cu"],
            check=True, env={"PATH": "/usr/bin:/bin"})
        return target

    return compile_


def gencode(*pairs: str) -> list[str]:
    return [f"-gencode=arch=compute_{a},code={b}" for a, _, b in
            (pair.partition(":") for pair in pairs)]


@pytest.mark.parametrize(("pairs", "targets", "ptx"), [
    (("80:sm_80", "90:sm_90", "90:compute_90"), ("sm_80", "sm_90"), ("compute_90",)),
    (("90a:sm_90a",), ("sm_90a",), ()),
    (("100f:sm_100f", "75:sm_75"), ("sm_75", "sm_100f"), ()),
    (("80:compute_80",), (), ("compute_80",)),
])
def test_targets_are_those_that_nvcc_was_asked_for(compiled, pairs, targets, ptx):
    binary = read_binary(compiled(*gencode(*pairs)))
    assert (binary.targets, binary.ptx) == (targets, ptx)
    assert binary.kernels == (4 if targets else None)  # PTX is compressed
    assert binary.cuda_major == 13


@pytest.mark.parametrize("mode", ["none", "size", "speed"])
def test_compression_hides_no_architecture(compiled, mode):
    flags = gencode("80:sm_80", "90:compute_90")
    binary = read_binary(compiled(*flags, f"--compress-mode={mode}"))
    assert (binary.targets, binary.ptx) == (("sm_80",), ("compute_90",))
    assert binary.kernels in (4, None)


@pytest.fixture(scope="module")
def subject(cuda_env, compiled, tmp_path_factory):
    """A site with this module, and the real torch and Python of the environment."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "apex").mkdir()
    (folder / "apex" / "__init__.py").touch()
    suffix = subprocess.run(
        [cuda_env.python, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"],
        capture_output=True, text=True, check=True).stdout.strip()
    shutil.copy(compiled(*gencode("90:sm_90")), folder / f"amp_C{suffix}")
    torch = subprocess.run(
        [cuda_env.python, "-c", "import importlib.util as u; print(u.find_spec('torch').origin)"],
        capture_output=True, text=True, check=True).stdout.strip()
    found = sites.find_torch([Path(torch).parents[1]])
    assert found is not None
    version = suffix.split("-")[1]
    python = sites.Python(f"{version[0]}.{version[1:]}", version, Path(cuda_env.python))
    files = find_files([folder], version, folder / "apex")
    return sites.Subject("site", str(folder), python, found, files, folder / "apex", ("0.1",), None,
                         None, prepend=(str(folder),))


def test_a_module_made_by_nvcc_fits_and_loads_beside_the_real_torch(subject):
    report = check.check(subject, check.Options(level="load", require=("amp_C",)))
    assert [found.code for found in report.errors] == []
    assert (report.verdict, report.environment.cuda) == ("ok", "13.0")
    assert next(one for one in report.extensions if one.name == "amp_C").status == "loaded"


def test_every_library_of_the_real_torch_resolves_against_the_others(subject):
    from apexlab.verify.link import Linked, Scope
    scope = Scope(subject.torch.lib)
    for name in ("libc10_cuda.so", "libtorch_python.so", "libtorch_cuda_linalg.so"):
        assert scope.check(read_binary(subject.torch.lib / name)) == Linked()
