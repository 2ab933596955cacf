"""Against a real torch (a CPU build): extensions compiled with its headers, fitting and not."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

# An extension that needs torch's c10 and speaks std::string with it, as every real one does. The
# module definition is laid out by hand, since a bare machine lacks Python.h.
SOURCE = """
#include <c10/util/Exception.h>
extern "C" void *PyModule_Create2(void *, int);
static struct { long refs; void *type, *init; long index; void *copy; const char *name, *doc;
                long size; void *methods, *slots, *traverse, *clear, *free; }
    definition = {1, 0, 0, 0, 0, "apex_C", 0, -1};
void refuse(int n) { TORCH_CHECK(n > 0, "not positive: ", n); }
extern "C" void *PyInit_apex_C() { return PyModule_Create2(&definition, 1013); }
"""


@pytest.fixture(scope="module")
def torch_folder(torch_python) -> Path:
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    done = subprocess.run([torch_python, "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def build(torch_python, torch_folder, tmp_path_factory):
    """Compile the extension into a site of its own on top of torch's; the site's folder."""
    if not shutil.which("g++"):
        pytest.fail("the ring torch needs g++")
    suffix = subprocess.run(
        [torch_python, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"],
        capture_output=True, text=True, check=True).stdout.strip()

    def build(*flags: str) -> Path:
        site = tmp_path_factory.mktemp("site")
        (site / "apex").mkdir()
        (site / "apex" / "__init__.py").touch()
        (site / "m.cpp").write_text(SOURCE)
        lib = torch_folder / "lib"
        subprocess.run(
            ["g++", "-std=c++20", "-shared", "-fPIC", "-O1", f"-I{torch_folder / 'include'}",
             site / "m.cpp", "-o", site / f"apex_C{suffix}", f"-L{lib}", "-Wl,--no-as-needed",
             *flags, "-lc10"], check=True)
        return site

    return build


@pytest.fixture
def verify(torch_python):
    def verify(site: Path, level: str) -> dict:
        """The report of `apexlab verify` in the environment where `site` comes first."""
        code = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"
        done = subprocess.run(
            [torch_python, "-c", code, "verify", "--level", level, "--require", "apex_C", "--json"],
            env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    return verify


def codes(report: dict) -> set[str]:
    extension = next(one for one in report["extensions"] if one["name"] == "apex_C")
    return {one["code"] for one in extension["findings"]}


def test_a_fitting_extension_loads_although_it_needs_torch_to_be_imported_first(build, verify):
    report = verify(build(), "load")
    assert (report["verdict"], report["level_reached"]) == ("ok", "load"), report
    assert report["extensions"][0]["status"] == "loaded"


@pytest.mark.parametrize("level", ["static", "load"])
def test_the_other_cxx_abi_is_another_torch(build, verify, level):
    report = verify(build("-D_GLIBCXX_USE_CXX11_ABI=0"), level)
    assert report["exit_code"] == 1 and codes(report) == {"cxx-abi-mismatch"}, report
    assert report["extensions"][0]["cxx_abi"] == "old"
    message = report["findings"][0]["message"]
    assert "the old C++ ABI" in message and "torchCheckFail" in message


@pytest.mark.parametrize("level", ["static", "load"])
def test_a_cuda_extension_under_a_cpu_torch_is_named_as_such(build, verify, tmp_path, level):
    stub = tmp_path / "libc10_cuda.so"
    subprocess.run(["gcc", "-shared", "-o", stub, "-Wl,-soname,libc10_cuda.so", "-x", "c",
                    "/dev/null"], check=True)
    report = verify(build(f"-L{tmp_path}", "-lc10_cuda"), level)
    assert report["exit_code"] == 1 and codes(report) == {"torch-cpu-only"}, report


def test_static_never_imports_torch(build, torch_python):
    code = ("import sys; from apexlab.verify.main import run; "
            "run(['verify', '--level', 'static', '--require', 'apex_C']); "
            "print('torch' in sys.modules, file=sys.stderr)")
    done = subprocess.run([torch_python, "-c", code], capture_output=True, text=True,
                          env={"PYTHONPATH": str(build()), "PATH": "/usr/bin:/bin"})
    assert done.stderr.splitlines()[-1] == "False", done.stderr
