"""The worker as the command starts it: a task in, a result out, in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from apexlab import bench, verify
from apexlab.bench.model.shape import Shape
from apexlab.bench.planning.scenario import scenarios
from apexlab.verify import errors

pytestmark = pytest.mark.torch
PARTS = ":".join(str(Path(part.__file__).parents[2]) for part in (bench, verify))
SIDE = Path(__file__).with_name("ranks_side.py")
WORKER = ["-m", "apexlab.bench.measure.worker"]
TINY = Shape("gpt", 256, 16, 1, 32, 2, 64)
QUICK = {"least_warmup": 4, "most_warmup": 8, "agree": 0.5, "blocks": 3, "block_seconds": 0.02}
RESULT = {
    "kind", "ending", "why", "environment", "first_step_seconds", "build_seconds", "warmup_steps",
    "steady", "window", "steps_per_block", "blocks", "steps", "skipped",
    "void_blocks", "losses", "memory", "optimizer_peak", "data_wait", "data", "launches", "files",
    "weights", "ranks"}


def task(scenario="torch-fp32", **changes):
    return {"kind": "time", "scenario": scenario,
            "settings": asdict(scenarios()[scenario].settings), "shape": asdict(TINY), "batch": 2,
            "seed": 1, "data": {"kind": "stream", "seed": 0}, "device": "cpu", "gpus": 1,
            "timing": QUICK, "interposer": None, "trace": None, **changes}


class Run:
    """A worker that was started, in `folder`."""

    def __init__(self, python, folder, asked, start=WORKER, **more):
        self.told = folder / "result.json"
        (folder / "task.json").write_text(json.dumps(asked))
        self.process = subprocess.Popen(
            [python, *start, folder / "task.json", self.told], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "PYTHONPATH": PARTS, "OMP_NUM_THREADS": "1"}, **more)

    def end(self, code=0):
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == code, err
        self.said = [json.loads(line) for line in out.splitlines()]
        return json.loads(self.told.read_text())


def torchrun(count=2):
    return ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
            "--nproc-per-node", str(count)]


def test_a_scenario_is_measured_and_told_whole(torch_python, tmp_path):
    run = Run(torch_python, tmp_path, task())
    begin = time.monotonic()
    result = run.end()
    assert set(result) == RESULT
    assert (result["ending"], result["why"]) == ("finished", "")
    assert len(result["blocks"]) == 3
    assert all(0 < seconds < 1 for seconds in result["blocks"])
    assert 4 <= result["warmup_steps"] <= 8
    assert 0 < result["build_seconds"] < result["first_step_seconds"] < time.monotonic() - begin
    assert result["window"][0] < result["window"][1] < time.monotonic()
    assert result["environment"]["capability"] is None
    assert result["environment"]["variables"]["OMP_NUM_THREADS"] == "1"
    assert len(result["weights"]) == len(result["data"]["digest"]) == 64
    assert result["launches"] == {"instrument": None, "controls": [], "step": []}
    assert [line["at"] for line in run.said if line["at"] != "warm-up"] == \
        ["start", "first-step", "block", "block", "block"]


def test_a_text_is_read_by_a_loader_and_held_against_its_hash(torch_python, tmp_path):
    import hashlib

    text = tmp_path / "text"
    text.write_bytes(b"So many words, and none of them new. " * 40)
    told = hashlib.sha256(text.read_bytes()).hexdigest()
    both = [Run(torch_python, folder, task(data={"kind": "text", "path": str(text), "sha256": sha}))
            for sha, folder in ((told, tmp_path), ("0" * 64, tmp_path / "other")) if
            folder.mkdir(exist_ok=True) is None]
    same, other = (run.end() for run in both)
    assert same["ending"] == "finished"
    assert same["data"] == {"kind": "text", "digest": told, "sequences": 92}
    assert 0 < same["data_wait"] < 0.1
    assert other["ending"] == "failed"
    assert "was changed while it was read" in other["why"]


def test_what_a_cpu_cannot_do_is_unavailable(torch_python, tmp_path):
    result = Run(torch_python, tmp_path, task("torch-amp-fp16")).end()
    assert result["ending"] == "unavailable"
    assert result["why"].startswith("FP16 training is not available on a CPU")
    assert result["environment"]["torch"]


def test_a_batch_that_does_not_fit_is_told_as_out_of_memory(torch_python, tmp_path):
    def little():
        resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))

    wide = Shape("gpt", 2**16, 1024, 1, 32, 2, 64)  # logits of 16 GiB, and a small model
    result = Run(torch_python, tmp_path, task(shape=asdict(wide), batch=64),
                 preexec_fn=little).end()
    assert result["ending"] == "failed"
    assert result["why"].startswith("out of memory: step 1 does not fit.")


def test_a_task_that_breaks_is_told_on_one_line(torch_python, tmp_path):
    result = Run(torch_python, tmp_path, task(timing={**QUICK, "blocks": "many\nlines"})).end()
    assert result["ending"] == "failed"
    assert "TypeError" in result["why"]
    assert "\n" not in result["why"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_without_a_result(torch_python, tmp_path, number):
    run = Run(torch_python, tmp_path, task(timing={**QUICK, "block_seconds": 60}))
    assert any("warm-up" in line for line in iter(run.process.stdout.readline, ""))
    time.sleep(0.2)
    run.process.send_signal(number)
    begin = time.monotonic()
    assert run.process.wait(timeout=30) == -number
    assert time.monotonic() - begin < 2
    assert "Traceback" not in run.process.stderr.read()
    assert not run.told.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["task.json"]


def test_a_result_that_cannot_be_written_says_so(torch_python, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "task.json").write_text(json.dumps(task("torch-amp-fp16")))
    done = subprocess.run(
        [torch_python, *WORKER, tmp_path / "task.json", tmp_path / "file" / "result.json"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PARTS})
    assert done.returncode == errors.CannotError.exit_code
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_ranks_train_as_one_process_with_the_doubled_batch(torch_python, tmp_path):
    done = subprocess.run([torch_python, *torchrun(), SIDE, "same", tmp_path], text=True,
                          capture_output=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": PARTS})
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "same.json").read_text())
    for case in ("plain", "compiled"):
        run = found[case]
        assert run["losses"] == pytest.approx(run["doubled"], rel=1e-5), case
        assert run["own"] != run["losses"], case
        assert run["gradients"] < 1e-4, case
        assert run["weights"] < 1e-3, case
    assert found["products"] == 2 * (2 * 5 + 1)  # on two ranks, and on one
    assert found["highest"] == 1
    assert found["gathered"] == [[0, 5], [1, 5]]


def test_two_ranks_are_timed_together(torch_python, tmp_path):
    result = Run(torch_python, tmp_path, task(gpus=2), [*torchrun(), *WORKER]).end()
    assert result["ending"] == "finished"
    first, second = (row["blocks"] for row in result["ranks"])
    assert [row["rank"] for row in result["ranks"]] == [0, 1]
    assert len(first) == len(second) == 3
    assert result["blocks"] == [max(pair) for pair in zip(first, second, strict=True)]


def test_a_rank_that_breaks_ends_all_of_them_with_its_reason(torch_python, tmp_path):
    begin = time.monotonic()
    result = Run(torch_python, tmp_path, task(gpus=2), [*torchrun(), SIDE, "fail"]).end(code=1)
    assert time.monotonic() - begin < 45
    assert result["ending"] == "failed"
    assert result["why"] == "rank 1: step 5: LookupError: broken on purpose by this test"
