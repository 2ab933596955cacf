"""The environment of setup.py: wrappers that really run, and what a caller's shell may not add."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from apexlab.build import toolkit as toolkits
from apexlab.build.jobs import Jobs
from apexlab.build.request import Request
from apexlab.build.toolchain import environment
from apexlab.build.toolkit import Compiler, Toolkit
from apexlab.verify.arch import parse_archs

REQUEST = Request("env", ("cuda_ext",), ("amp_C",), "core", parse_archs("9.0"), {})


@pytest.fixture
def fake(tmp_path):
    """A toolkit whose nvcc prints its arguments and a compiler that does the same."""
    home = tmp_path / "cuda"
    for name in ("bin/nvcc", "bin/ptxas", "nvvm/bin/cicc", "gxx"):
        program = home / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text('#!/bin/sh\necho "$@"\n')
        program.chmod(0o755)
    runtime = home / "lib" / "libcudart.so.13"
    runtime.parent.mkdir()
    runtime.write_text("")
    kit = Toolkit(home, "CUDA_HOME", "13.0.88", (), frozenset(), runtime, False)
    return kit, Compiler(str(home / "gxx"), "gcc", "12.2.0")


def make(fake, tmp_path, std=None, threads=1, **caller):
    toolkit, compiler = fake
    caller = {"PATH": os.environ["PATH"], "CCACHE_DISABLE": "1", **caller}
    jobs = Jobs(3, threads, 0, 0, False)
    return environment(caller, REQUEST, toolkit, compiler, jobs, std, tmp_path / "scratch")


def said(program, *arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True,
                          text=True).stdout.split()


def test_the_wrappers_hand_everything_on(fake, tmp_path):
    env = make(fake, tmp_path)
    assert said(env["CXX"], "-c", "a b.cpp") == ["-c", "a", "b.cpp"]
    assert said(env["PYTORCH_NVCC"], "-std=c++17", "x.cu") == ["-std=c++17", "x.cu"]
    assert "g++" in Path(env["CXX"]).name  # torch looks at the name


def test_a_forced_standard_comes_last_so_that_it_wins(fake, tmp_path):
    env = make(fake, tmp_path, std="c++20")
    assert said(env["CXX"], "-std=c++17")[-1] == "-std=c++20"
    assert said(env["PYTORCH_NVCC"], "-std=c++17")[-1] == "-std=c++20"


def test_flags_of_the_callers_nvcc_variables_are_put_where_a_cache_sees_them(fake, tmp_path):
    env = make(fake, tmp_path, NVCC_PREPEND_FLAGS="-O1", NVCC_APPEND_FLAGS="-lineinfo")
    assert said(env["PYTORCH_NVCC"], "x.cu") == ["-O1", "x.cu", "-lineinfo"]
    assert "NVCC_APPEND_FLAGS" not in env
    assert "NVCC_PREPEND_FLAGS" not in env


def test_only_the_request_decides_what_is_built(fake, tmp_path):
    env = make(fake, tmp_path, APEX_FMHA="1", APEX_PARALLEL_BUILD="8", TORCH_CUDA_ARCH_LIST="7.0")
    assert {name for name in env if name.startswith("APEX_")} == {"APEX_CUDA_EXT"}
    assert env["TORCH_CUDA_ARCH_LIST"] == "9.0"


def test_jobs_and_threads(fake, tmp_path):
    env = make(fake, tmp_path, threads=4)
    assert (env["MAX_JOBS"], env["NVCC_APPEND_FLAGS"]) == ("3", "--threads 4")


def test_the_linker_finds_a_runtime_that_has_only_its_versioned_name(fake, tmp_path):
    env = make(fake, tmp_path, LIBRARY_PATH="/other")
    folder, other = env["LIBRARY_PATH"].split(":")
    assert (Path(folder) / "libcudart.so").resolve() == fake[0].cudart
    assert other == "/other"
    assert not (fake[0].home / "lib" / "libcudart.so").exists()


@pytest.mark.parametrize("variable", ["CC", "CXX"])
def test_a_chosen_compiler_is_nvccs_host_compiler_too(fake, tmp_path, variable):
    assert make(fake, tmp_path, **{variable: fake[1].command})["CC"] == fake[1].command


def test_nvcc_gets_its_host_compiler_without_a_cache_and_without_flags(fake, tmp_path):
    """It looks for a file of that name: "ccache g++" and "g++ -m64" fail in every .cu file."""
    env = make(fake, tmp_path, CC=f"ccache {fake[1].command} -m64 '-DA=b c'")
    assert env["CC"] == fake[1].command
    assert said(env["PYTORCH_NVCC"], "x.cu") == ["x.cu", "-Xcompiler=-m64", "-Xcompiler=-DA=b", "c"]


def test_without_a_chosen_compiler_nvcc_keeps_its_own_choice(fake, tmp_path):
    assert "CC" not in make(fake, tmp_path)


def test_the_cache_is_left_out_when_it_is_switched_off(fake, tmp_path):
    env = make(fake, tmp_path)
    assert not [name for name in env if name.startswith("CCACHE_") and name != "CCACHE_DISABLE"]


@pytest.mark.skipif(not shutil.which("ccache"), reason="there is no ccache here")
def test_the_cache_knows_the_compilers_by_content_and_other_folders_as_the_same(fake, tmp_path):
    env = make(fake, tmp_path, CCACHE_DISABLE="", CCACHE_DIR=str(tmp_path / "mine"))
    assert "ccache" in Path(env["PYTORCH_NVCC"]).read_text()
    assert env["CCACHE_DIR"] == str(tmp_path / "mine")
    assert env["CCACHE_BASEDIR"] == str((tmp_path / "scratch").resolve())
    assert env["CCACHE_COMPILERCHECK"] == "content"
    assert [Path(part).name for part in env["CCACHE_EXTRAFILES"].split(":")] == ["cicc", "ptxas"]


@pytest.mark.skipif(not shutil.which("ccache"), reason="there is no ccache here")
def test_a_cache_that_cannot_be_written_to_is_left_out_since_it_would_fail_every_file(
    fake, tmp_path
):
    env = make(fake, tmp_path, CCACHE_DISABLE="", CCACHE_DIR="/proc/none")
    assert "ccache" not in Path(env["PYTORCH_NVCC"]).read_text()
    assert said(env["CXX"], "-c") == ["-c"]


def test_cuda_home_decides_where_it_is_set():
    found = toolkits.candidates({"CUDA_HOME": "/a:/b", "PATH": os.environ["PATH"]}, "/site/torch")
    assert found == [(Path("/a:/b"), "CUDA_HOME")]


def test_without_cuda_home_the_wheels_beside_torch_come_first(tmp_path):
    nvcc = tmp_path / "nvidia" / "cu13" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("")
    found = toolkits.candidates({"PATH": ""}, str(tmp_path / "torch"))
    assert found[0] == (tmp_path / "nvidia" / "cu13", "NVIDIA's wheels beside torch")


def test_of_several_toolkits_the_one_that_fits_torch_wins(tmp_path):
    def make(place, version):
        nvcc = tmp_path / place / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text(f"#!/bin/sh\necho 'release, V{version}'\n")
        nvcc.chmod(0o755)
        return nvcc.parent

    make("nvidia/cu13", "13.0.88")
    path = str(make("other", "12.4.131"))
    found = toolkits.find({"PATH": path}, str(tmp_path / "torch"), "12.4")
    assert (found.home, found.minor) == (tmp_path / "other", "12.4")
    assert toolkits.find({"PATH": path}, str(tmp_path / "torch"), "13.0").minor == "13.0"


@pytest.mark.parametrize("named", ["/bin/false", "no-such-compiler", 'g++ "', " "])
def test_a_chosen_compiler_that_does_not_answer_is_no_compiler(named):
    assert toolkits.read_compiler({"CXX": named}) is None
    assert toolkits.read_compiler({"CC": named}, "CC") is None


def test_the_compilers_own_version_is_read_and_not_its_packages(tmp_path):
    program = tmp_path / "g++"
    program.write_text(
        "#!/bin/sh\necho 'g++ (Distribution 9.9.9-1~22.04.1) 11.4.0'\necho 'Free 1.2.3'\n")
    program.chmod(0o755)
    found = toolkits.read_compiler({"CXX": str(program)})
    assert (found.name, found.version, found.major) == ("gcc", "11.4.0", 11)
