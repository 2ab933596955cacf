"""`apexlab bench ops` on a CPU, from the command to the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from apexlab.bench.ops.result import KEY

pytestmark = pytest.mark.torch
QUICK = ("bench", "ops", "--device", "cpu", "--quick")
SIDE = Path(__file__).with_name("ops_side.py")


@pytest.fixture(scope="module")
def done(torch_python, tmp_path_factory):
    """(the folder, the ended process) of one whole run."""
    folder = tmp_path_factory.mktemp("ops") / "run"
    ended = subprocess.run([torch_python.with_name("apexlab"), *QUICK, "--out", folder],
                           capture_output=True, text=True, timeout=300)
    return folder, ended


@pytest.fixture(scope="module")
def result(done):
    folder, ended = done
    assert ended.returncode == 0, ended.stderr
    return json.loads((folder / "result.json").read_text())


@pytest.fixture(scope="module")
def found(torch_python):
    ended = subprocess.run([torch_python, SIDE], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def begin(torch_python, folder, *more):
    return subprocess.Popen([torch_python.with_name("apexlab"), *QUICK, *more, "--out", folder],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(folder):
    path = folder / "runs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(condition, seconds=120.0):
    """What the condition gives, as soon as it gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def test_all_that_a_cpu_has_is_measured_and_the_rest_says_why_not(result):
    assert result["state"] == "complete"
    assert {point["op"] for point in result["points"]} == {"adam", "layernorm", "rmsnorm", "clip"}
    for point in result["points"]:
        if point["state"] == "measured":
            assert point["call_us"]["median"] > 0
            assert point["error"]["error"] <= point["error"]["limit"]
            assert point["provider"].startswith("torch")
        else:
            assert point["state"] == "not-available"
            assert point["why"]
        assert point["cold_us"] is point["hot_us"] is point["host_us"] is point["gbps"] is None


def test_the_result_keeps_to_its_schema(result):
    jsonschema = pytest.importorskip("jsonschema")
    from apexlab.bench.result import result as results

    schema = Path(results.__file__).with_name("schema") / "bench-1.json"
    jsonschema.validate(result, json.loads(schema.read_text()))


def test_every_file_of_the_report_is_there_and_the_answer_is_printed(done, result):
    folder, ended = done
    for name in ("runs.jsonl", "result.json", "result.csv", "report.md", "report.html"):
        assert (folder / name).stat().st_size > 100, name
    assert "Apex needs a GPU" in ended.stdout
    assert "Apex is not installed" not in ended.stdout
    assert "noise of calls: adam ±" in ended.stdout.replace("above 100 %", "±")
    assert result["headline"].split(":")[0] in ended.stdout.replace("\n", " ")


def test_results_are_never_written_over(torch_python, done):
    folder, _ = done
    again = subprocess.run([torch_python.with_name("apexlab"), *QUICK, "--out", folder],
                           capture_output=True, text=True, timeout=60)
    assert again.returncode == 2
    assert "holds a run already" in again.stderr
    other = subprocess.run([torch_python.with_name("apexlab"), "bench", "ops", "--resume",
                            "--seed", "5", "--out", folder],
                           capture_output=True, text=True, timeout=60)
    assert other.returncode == 2
    assert "its seed differs" in other.stderr


def test_an_interrupted_run_keeps_what_is_finished(torch_python, tmp_path):
    process = begin(torch_python, tmp_path / "run")
    until(lambda: any(row["row"] == "point" for row in rows(tmp_path / "run")))
    worker, = children(process.pid)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert not Path(f"/proc/{worker}").exists()
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["state"] == "partial"
    assert any(point["state"] == "measured" for point in result["points"])
    assert (tmp_path / "run" / "report.html").exists()
    assert f"apexlab bench ops --resume --out {tmp_path / 'run'}" in said
    before = rows(tmp_path / "run")
    again = subprocess.run(
        [torch_python.with_name("apexlab"), "bench", "ops", "--resume", "--out",
         tmp_path / "run"], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    after = rows(tmp_path / "run")
    assert after[:len(before)] == before
    assert json.loads((tmp_path / "run" / "result.json").read_text())["state"] == "complete"
    kept = [row for row in after if row["row"] == "point"]
    assert len(kept) < 1.5 * len({tuple(row[key] for key in KEY) for row in kept})


def test_a_process_that_is_killed_costs_little_and_is_reported(torch_python, tmp_path):
    process = begin(torch_python, tmp_path / "run", "--op", "rmsnorm", "--json")
    until(lambda: any(row["row"] == "point" for row in rows(tmp_path / "run")))
    worker, = children(process.pid)
    os.kill(worker, signal.SIGKILL)
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    result = json.loads(printed)
    states = [point["state"] for point in result["points"]]
    assert states.count("failed") >= 1
    assert states.count("measured") >= 4
    assert any("SIGKILL" in point["why"] for point in result["points"])


def test_a_step_that_is_not_made_or_made_twice_is_wrong_in_every_dtype(found):
    for name, wrong in found["wrong"].items():
        assert wrong == (not name.endswith("right")), name
    assert len(found["wrong"]) == 12


def test_a_provider_without_memory_leaves_the_others_alone(found):
    states = found["memory"]
    assert states.pop("torch-foreach") == ["failed", "out of GPU memory"]
    assert states["torch-loop"] == states["torch-fused"] == ["measured", ""]


def test_compiling_past_the_limit_or_while_timing_is_seen(found):
    before, again, limit = found["compiler"]
    assert before == ""
    assert again == "torch compiled it again while it was timed"
    assert limit.startswith("torch compiled it anew until its limit")


def test_clocks_tell_the_time_of_one_call(found):
    for times in found["clocks"]:
        assert len(times) == 5
        assert 2000 <= min(times) < 20_000
