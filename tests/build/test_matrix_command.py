"""`apexlab matrix`, as it is called."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apexlab.build.matrix import DEFAULT_PATH, load
from apexlab.verify.main import SUMMARIES, run


@pytest.fixture
def call(capsys):
    def called(*words):
        code = run(["matrix", *words])
        out, err = capsys.readouterr()
        return code, out, err
    return called


def test_the_table_has_a_line_for_each_cell_and_names_its_sources(call):
    code, out, err = call()
    rows = out.split("\n\n")[0].splitlines()
    assert code == 0 and err == ""
    assert len(rows) == 1 + len(load().cells)
    assert "slime" in out


def test_the_help_begins_with_the_groups_own_summary(call):
    assert SUMMARIES["matrix"] in call("--help")[1]


def test_json_is_one_document_with_its_schema(call):
    code, out, _ = call("--format", "json", "--torch", "2.4", "--cuda", "12.4")
    data = json.loads(out)
    assert code == 0 and data["schema"] == "apexlab.matrix/1"
    [cell] = data["cells"]
    assert cell["torch_requirement"] == "torch==2.4.1+cu124"
    assert cell["torch_index"] == "https://download.pytorch.org/whl/cu124"
    assert cell["archs"][-1] == "9.0+PTX"
    assert len(cell["ref"]) == 40


def test_the_github_matrix_is_one_line_with_all_cells(call):
    _, out, _ = call("--format", "github")
    assert out.count("\n") == 1
    include = json.loads(out)["include"]
    assert len(include) == len(load().cells)
    assert len({entry["name"] for entry in include}) == len(include)
    assert {"torch", "cuda", "python", "os", "evidence"} < set(include[0])


def test_the_bake_definition_has_a_target_for_each_cell(call):
    code, out, _ = call("--format", "bake", "--cuda", "13.0")
    assert code == 0
    assert "torch2.11-cuda13.0" in out and "torch2.4" not in out
    assert json.loads(out)["target"]


@pytest.mark.parametrize(("words", "torches"), [
    (("--torch", "2.4"), ["2.4.1", "2.4.1"]), (("--torch", "2.4.1"), ["2.4.1", "2.4.1"]),
    (("--cuda", "12.9"), ["2.8.0", "2.9.1", "2.11.0"]),
    (("--torch", "2.15", "--cuda", "13.2"), ["2.15.0"]),
])  # fmt: skip
def test_versions_filter_the_cells(call, words, torches):
    _, out, _ = call("--format", "github", *words)
    assert [entry["torch"] for entry in json.loads(out)["include"]] == torches


@pytest.mark.parametrize("form", ["table", "json", "github", "bake"])
def test_a_reader_that_leaves_is_no_problem_and_a_full_disk_is_one(form):
    command = [sys.executable, "-c", "from apexlab.verify.main import main; main()", "matrix",
               "--format", form]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 4 and b"cannot be written" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [
    ("--torch", "9"), ("--torch", ""), ("--torch", "2.4."), ("--torch", " 2.4"),
    ("--torch", "02.4"), ("--torch", "2.4.1+cu124"), ("--torch", "２.４"), ("--cuda", "12"),
    ("--torch", "2." + "4" * 5000), ("--torch", "2.4", "--cuda", "-12.4"),
    ("--cuda", "twelve"), ("--torch", "2.4", "--cuda", "12.9"),
    ("--torch", "2.1"), ("--cuda", "11.8"), ("--format", "yaml"), ("extra",),
])  # fmt: skip
def test_what_cannot_be_met_is_usage_and_leaves_stdout_empty(call, words):
    code, out, err = call(*words)
    assert code == 2 and out == ""
    assert "Traceback" not in err and err


@pytest.mark.parametrize(("old", "new", "code", "said"), [
    ("cell = [", "cell = ", 4, "is not TOML"),
    ('image = "12.4.1"', 'image = "12.6.3"', 1, "is not one of CUDA 12.4"),
    ('evidence = "none"', 'evidence = "maybe"', 1, "does not follow its schema"),
])  # fmt: skip
def test_a_broken_installed_matrix_is_one_paragraph(tmp_path, old, new, code, said):
    # A copy of the package stands before the installed one, so that its own file is read.
    copy = tmp_path / "apexlab" / "build"
    shutil.copytree(DEFAULT_PATH.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = DEFAULT_PATH.read_text()
    assert old in text
    (copy / "matrix.toml").write_text(text.replace(old, new))
    verify = Path(sys.modules["apexlab.verify.main"].__file__).parents[2]
    program = "import sys; from apexlab.verify.main import run; sys.exit(run(['matrix']))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(verify)])})
    assert done.returncode == code and done.stdout == ""
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert str(copy) in done.stderr
