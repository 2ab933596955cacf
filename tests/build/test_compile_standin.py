"""The driver with a real nvcc and a real CUDA torch: a sound tree, and every way to break one.

All builds share one compiler cache below the repository's .cache, so only what a sabotage changes
is compiled again.
"""

import json
import os
import shutil
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import jsonschema
import pytest

from apexlab.verify.record import parse_record
from apexlab.verify.report import schema

pytestmark = pytest.mark.cuda

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "tests" / "standin"
ARCHS = "9.0"


@pytest.fixture(scope="module")
def compile_(cuda_env):
    """Runs `apexlab compile` on the stand-in; variables as keywords."""

    def run(out, *options, source=STANDIN, archs=ARCHS, **variables):
        env = cuda_env.environ(CCACHE_DIR=str(ROOT / ".cache" / "ccache"), **variables)
        command = [cuda_env.apexlab, "compile", source, "--out", out, "--archs", archs, *options]
        return subprocess.run([str(word) for word in command], env=env, capture_output=True,
                              text=True, timeout=900)

    return run


@pytest.fixture(scope="module")
def sound(compile_, tmp_path_factory):
    """(the finished process, its output folder) of a build that nothing is wrong with."""
    out = tmp_path_factory.mktemp("sound")
    done = compile_(out, "--json", "--memory", "16G")
    assert done.returncode == 0, done.stderr
    return done, out


def wheel_in(out):
    (wheel,) = out.glob("*.whl")
    return wheel


def test_a_sound_tree_gives_wheel_record_and_log(sound):
    _, out = sound
    assert sorted(path.suffix for path in out.iterdir()) == [".json", ".log", ".whl"]
    assert "building 'amp_C' extension" in (out / "build.log").read_text()


def test_json_is_one_document_and_it_is_the_record_file(sound):
    done, out = sound
    assert json.loads(done.stdout) == json.loads((out / "record.json").read_text())


def test_the_record_follows_its_schema(sound):
    jsonschema.validate(json.loads(sound[0].stdout), schema("record-1"))


def test_the_record_says_what_was_asked_for_and_what_came_out(sound):
    _, out = sound
    record = parse_record((out / "record.json").read_text(), "record.json")
    assert record.source == "standin"
    assert record.torch["version"].startswith("2.11.0+cu130")
    assert record.toolkit["nvcc"].startswith("13.0.")
    assert set(record.requested) == {built.name for built in record.built}
    assert len(record.requested) == 13
    by_name = {built.name: built for built in record.built}
    assert by_name["amp_C"].targets == ("sm_90",)
    assert by_name["apex_C"].targets == ()
    assert all(built.seconds is not None and built.seconds > 0 for built in record.built)
    assert 0 < record.build["memory_peak"] <= record.build["memory_limit"] <= 16 * 2**30


def test_the_record_travels_inside_the_wheel(sound):
    _, out = sound
    outside = json.loads((out / "record.json").read_text())
    with zipfile.ZipFile(wheel_in(out)) as file:
        (name,) = [name for name in file.namelist() if name.endswith("apexlab-record.json")]
        inside = json.loads(file.read(name))
    assert inside["built"] == outside["built"]
    assert inside["wheel"]["sha256"] is None
    assert len(outside["wheel"]["sha256"]) == 64


def test_the_version_tells_source_torch_and_cuda(sound):
    _, out = sound
    tree = json.loads((out / "record.json").read_text())["apex"]["tree"]
    assert f"0.1+g{tree[:8]}.torch2.11.0.cu130-cp3" in wheel_in(out).name


def test_no_debug_sections_are_left(sound, tmp_path):
    _, out = sound
    with zipfile.ZipFile(wheel_in(out)) as file:
        file.extractall(tmp_path)
    for module in tmp_path.glob("*.so"):
        sections = subprocess.run(["readelf", "--sections", "--wide", module], check=True,
                                  capture_output=True, text=True).stdout
        assert ".debug_info" not in sections, module.name


def test_plain_progress_lines(sound):
    done, _ = sound
    assert "[13/13] " in done.stderr
    assert "memory limit" in done.stderr


def test_the_users_tree_is_not_written_to(sound):
    assert not (STANDIN / "build").exists()
    assert not list(STANDIN.glob("*.egg-info"))


@pytest.mark.parametrize(
    ("sabotage", "code"),
    [
        ("python-only", "python-only"),
        ("drop-extension", "not-installed"),
        ("undefined-symbol", "torch-abi-mismatch"),
        ("missing-libcudart", "cudart-missing"),
        ("no-device-code", "no-device-code"),
        ("wrong-arch", "fewer-architectures"),
        ("wrong-suffix", "wrong-python-abi"),
        ("truncated", "wrong-file"),
    ],
)
def test_a_wheel_that_is_not_what_was_asked_for_is_an_error(compile_, tmp_path, sabotage, code):
    done = compile_(tmp_path / "out", STANDIN_SABOTAGE=sabotage)
    assert done.returncode == 1, done.stderr
    assert f"- {code}: " in done.stderr
    assert done.stderr.rstrip().splitlines()[-1] == f"The full log: {tmp_path / 'out/build.log'}"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["build.log"]
    assert done.stdout == ""


def test_an_architecture_that_nvcc_has_dropped_is_refused_before_compiling(compile_, tmp_path):
    done = compile_(tmp_path / "out", archs="7.0")
    assert done.returncode == 2
    assert "cannot compile for 7.0" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_build_that_fails_says_why_and_keeps_the_log(compile_, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(STANDIN, tree)
    binding = tree / "csrc" / "apex_C" / "binding.cpp"
    binding.write_text("#include <no_such_header.h>\n" + binding.read_text())
    done = compile_(tmp_path / "out", source=tree)
    assert done.returncode == 1
    assert "The header no_such_header.h is missing" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("The full log: ")
    assert "no_such_header.h" in (tmp_path / "out" / "build.log").read_text()


def test_a_tree_that_takes_only_arguments_is_asked_by_arguments(compile_, sound, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(STANDIN, tree)
    setup = (tree / "setup.py").read_text()
    (tree / "setup.py").write_text(setup.replace("APEX_", "OTHER_"))
    done = compile_(tmp_path / "out", "--json", source=tree)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["apex"]["request_style"] == "build-option"


def test_hard_coded_cxx17_gives_way_where_more_is_asked_for(cuda_env, tmp_path):
    """The wrappers around the real compilers: -std=c++17 on the line, and c++20 counts."""
    code = """
import os, subprocess
from pathlib import Path
from apexlab.build import toolkit
from apexlab.build.jobs import choose
from apexlab.build.request import Request
from apexlab.build.toolchain import environment
from apexlab.verify.arch import parse_archs

kit = toolkit.read_toolkit(Path(os.environ["CUDA_HOME"]), "CUDA_HOME")
request = Request("env", (), (), "core", parse_archs("9.0"), {})
env = environment(os.environ, request, kit, toolkit.read_compiler(), choose(1, 2**34, 1),
                  "c++20", Path("scratch"))
for program, file in ((env["PYTORCH_NVCC"], "a.cu"), (env["CXX"], "a.cpp")):
    Path(file).write_text("static_assert(__cplusplus >= 202002L);")
    subprocess.run([program, "-std=c++17", "-c", file], env=env, check=True)
"""
    subprocess.run([cuda_env.python, "-c", code], cwd=tmp_path, check=True,
                   env=cuda_env.environ(CCACHE_DIR=str(tmp_path / "ccache")))


def test_an_interrupt_ends_the_compilers_and_writes_no_wheel(cuda_env, tmp_path):
    env = cuda_env.environ(CCACHE_DISABLE="1", TMPDIR=str(tmp_path))
    command = [cuda_env.apexlab, "compile", STANDIN, "--out", tmp_path / "out", "--archs", ARCHS]
    child = subprocess.Popen([str(word) for word in command], env=env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in child.stderr:
        if "[1/13]" in line:
            break
    time.sleep(1)  # ninja and the compiler have started by then
    child.send_signal(signal.SIGINT)
    _, rest = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "interrupted" in rest
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["build.log"]
    assert not list(tmp_path.glob("apexlab-compile-*"))
    assert not compilers_in(tmp_path)


def compilers_in(folder):
    """Processes whose command line names `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if f"{folder}/apexlab-compile-" in line:
                found.append(line)
    return found
