"""`apexlab bench report`: a run's report again, or one plain reason why not."""

import contextlib
import io
import json
import resource
import subprocess
import sys
from types import SimpleNamespace

import made_ops
import made_result as made
import pytest

from apexlab.bench import cmd_report
from apexlab.bench.report.write import write_report
from apexlab.bench.result.result import make_result
from apexlab.verify.errors import CannotError
from apexlab.verify.main import run

FILES = {"result.json", "result.csv", "report.md", "report.html"}


def report(*args):
    """The command, in this process: its exit code and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["bench", "report", *map(str, args)])
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def train_run(folder, **given):
    """A finished run's folder, with nothing but its samples."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = made.plan(**given)
    rows = [{**row, "record": None} if row["row"] == "subject" else row for row in made.rows(plan)]
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "runs.jsonl").write_text(lines(rows))
    return folder


def ops_run(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.jsonl").write_text(lines(made_ops.rows(ops=("adam",), quick=True)))
    return folder


def names(folder):
    return {entry.name for entry in folder.iterdir()}


def one_paragraph(done, code):
    assert done.returncode == code and done.stdout == ""
    assert done.stderr.startswith("apexlab: ") and done.stderr.count("\n") == 1
    return done.stderr


def test_all_files_are_made_again_from_the_samples_alone(tmp_path):
    folder = train_run(tmp_path / "run", ladder="classic")
    done = report(folder)
    assert done.returncode == 0, done.stderr
    assert names(folder) == {"plan.json", "runs.jsonl", *FILES}
    result = json.loads((folder / "result.json").read_text())
    assert result["headline"] in (folder / "report.html").read_text().replace("&amp;", "&")
    assert "report.html" in done.stdout
    before = {name: (folder / name).read_bytes() for name in FILES}
    assert report(folder).returncode == 0
    assert {name: (folder / name).read_bytes() for name in FILES} == before


def test_a_torn_last_line_is_none_and_stays_as_it_is(tmp_path):
    folder = train_run(tmp_path / "run", ladder="classic")
    samples = folder / "runs.jsonl"
    samples.write_text(samples.read_text() + '{"row": "run", "sce')
    before = samples.read_bytes()
    assert report(folder).returncode == 0 and samples.read_bytes() == before


def test_without_samples_the_result_is_enough(tmp_path):
    write_report(tmp_path, made.result(ladder="classic"))
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    for name in FILES - {"result.json"}:
        (tmp_path / name).unlink()
    assert report(tmp_path).returncode == 0
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == before


def test_operations_have_a_page_of_their_own(tmp_path):
    folder = train_run(tmp_path / "run", ladder="classic")
    ops_run(folder / "ops")
    assert report(folder).returncode == 0
    assert names(folder) >= FILES and names(folder / "ops") >= FILES
    assert "Single operations" in (folder / "ops" / "report.html").read_text()
    assert "Transformer training" in (folder / "report.html").read_text()


def test_a_folder_of_operations_alone_is_one_too(tmp_path):
    assert report(ops_run(tmp_path / "some")).returncode == 0
    ops_run(tmp_path / "outer" / "ops")
    assert report(tmp_path / "outer").returncode == 0
    assert names(tmp_path / "outer") == {"ops"}


def test_json_is_the_result_and_nothing_else(tmp_path):
    done = report(train_run(tmp_path, ladder="classic"), "--json")
    assert json.loads(done.stdout) == json.loads((tmp_path / "result.json").read_text())


def test_a_folder_without_a_run_is_refused(tmp_path):
    assert "holds no run" in one_paragraph(report(tmp_path), 2)
    assert "There is no folder" in one_paragraph(report(tmp_path / "absent"), 2)
    assert names(tmp_path) == set()


def test_a_run_that_timed_nothing_is_refused(tmp_path):
    folder = train_run(tmp_path, ladder="classic")
    samples = (folder / "runs.jsonl").read_text().splitlines(keepends=True)
    (folder / "runs.jsonl").write_text("".join(samples[:3]))
    assert "before anything was timed" in one_paragraph(report(folder), 2)


@pytest.mark.parametrize("name", ["plan.json", "result.json"])
def test_files_of_another_version_are_refused_and_left_alone(tmp_path, name):
    folder = train_run(tmp_path, ladder="classic") if name == "plan.json" else tmp_path
    (folder / name).write_text(json.dumps({"schema": "apexlab.bench/99", "kind": "train"}))
    before = names(folder)
    assert "apexlab.bench/99" in one_paragraph(report(folder), 2)
    assert names(folder) == before


def test_a_file_that_cannot_be_written_keeps_the_result_all_the_same(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(CannotError, match=r"report\.html"):
        write_report(tmp_path, made.result(ladder="classic"))
    assert json.loads((tmp_path / "result.json").read_text())["kind"] == "train"
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_neither_torch_nor_a_display_is_needed(tmp_path):
    folder = train_run(tmp_path / "run", ladder="classic")
    script = ("import sys; sys.modules['torch'] = None; from apexlab.verify.main import run;"
              "code = run(sys.argv[1:]); assert 'matplotlib.pyplot' not in sys.modules;"
              "sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", script, "bench", "report", folder],
                          capture_output=True, text=True, env={"HOME": "/nowhere", "PATH": ""})
    assert (done.returncode, done.stderr) == (0, "")


def test_the_whole_report_is_a_matter_of_seconds(tmp_path):
    """Goal: 2 s on an idle machine. Processor time, since other work may take turns with it."""
    folder = train_run(tmp_path / "run", ladder="all")
    script = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script, "bench", "report", folder], check=True,
                   stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(f"report of 21 scenarios and 5 rounds: {spent:.2f} s of processor time")
    assert spent < 6


def test_the_rebuilt_result_is_the_one_of_the_run(tmp_path):
    folder = train_run(tmp_path, ladder="modern")
    plan = made.plan(ladder="modern")
    rows = [row for row in made.rows(plan) if row["row"] != "subject"]
    assert cmd_report.result_of(folder) == make_result(plan, rows, made.apex(), None)
