"""The process that waits for the next task: it takes over, and its end is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apexlab import bench, verify
from apexlab.bench.run.ahead import Ahead
from apexlab.bench.run.launch import Launcher, begun
from apexlab.verify.errors import CannotError

PARTS = ":".join(str(Path(part.__file__).parents[2]) for part in (bench, verify))
TASK = {"kind": "time", "gpus": 1, "scenario": "torch-fp32"}
# As the worker does with --wait, without torch: it says which process it is, in its result.
WAITS = """
import json, os, sys
line = sys.stdin.readline()
if line.strip():
    asked, told = json.loads(line)
    task = json.load(open(asked))
    open(told, "w").write(json.dumps({"kind": task["kind"], "ending": "finished", "why": "",
                                      "pid": os.getpid(), "scenario": task["scenario"]}))
"""
DIES = "import sys; sys.exit('no torch here')"


@pytest.fixture
def started():
    return []


@pytest.fixture
def launcher(tmp_path, started):
    def made(code: str) -> Launcher:
        def start():
            process = begun([sys.executable, "-c", code], tmp_path, os.environ, subprocess.PIPE)
            started.append(process)
            return process

        return Launcher(tmp_path, os.environ, 30.0, ahead=Ahead(start))

    return made


def test_each_task_has_a_process_of_its_own_which_was_started_before(launcher, started):
    here = launcher(WAITS)
    results = [here.run({**TASK, "scenario": name}) for name in ("a", "b", "c")]
    assert [result["scenario"] for result in results] == ["a", "b", "c"]
    # The one that answers is the one that waited, and one more waits at the end.
    assert [result["pid"] for result in results] == [process.pid for process in started[:3]]
    assert len(started) == 4 and started[3].poll() is None
    here.close()
    assert started[3].poll() is not None


def test_one_that_died_while_it_waited_says_why(launcher):
    here = launcher(DIES)
    here.run(TASK)
    result = here.run(TASK)
    here.close()
    assert result["ending"] == "failed" and "no torch here" in result["why"]


def test_several_gpus_start_their_own_processes(launcher, tmp_path, started):
    here = launcher(WAITS)
    result = Launcher(tmp_path, os.environ, 30.0, lambda gpus: (sys.executable, "-c", "pass"),
                      here.ahead).run({**TASK, "gpus": 2})
    assert result["ending"] == "failed" and started == []


def test_a_python_that_is_not_there_is_said_in_one_sentence(tmp_path):
    def start():
        return begun(["/nowhere/python"], tmp_path, os.environ, subprocess.PIPE)

    with pytest.raises(CannotError, match="cannot be started"):
        Launcher(tmp_path, os.environ, 30.0, ahead=Ahead(start)).run(TASK)


@pytest.mark.torch
def test_the_worker_waits_for_its_task_and_ends_when_there_is_none(torch_python, tmp_path):
    command = [torch_python, "-m", "apexlab.bench.measure.worker", "--wait"]
    done = subprocess.run(command, input=b"", capture_output=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": PARTS})
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    asked, told = tmp_path / "task.json", tmp_path / "result.json"
    asked.write_text(json.dumps({"kind": "time", "gpus": 1}))  # not whole: the result says so
    done = subprocess.run(command, input=json.dumps([str(asked), str(told)]).encode() + b"\n",
                          capture_output=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": PARTS})
    assert done.returncode == 0, done.stderr
    assert json.loads(told.read_text())["ending"] == "failed"
