"""A stand-alone program with the worker's command line, TASK.json RESULT.json, that trains nothing:
its times are made up, from what FAKE_CHILD (JSON) says.

    state     a folder, in which it remembers how often it was started
    step      seconds of a step of the baseline (0.1)
    ratios    {scenario: how many times longer than that}
    noise     share, of each block (0.002), seeded by the number of the start
    drift     share by which each start is slower than the one before (0)
    do        {scenario: {number of the timed run, or "look", or "every": what it does instead}}:
              crash, hang, slow, oom, nan, kill, vanish, quiet-end, orphan, chatter
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ENVIRONMENT = {"python": "3.11.7", "torch": "0.0 (made up)", "cuda": None, "device": "made up",
               "capability": None, "uuid": None, "cpu": "made up", "cores": 2,
               "apex_version": None, "variables": {}}


def main() -> None:
    asked, told = map(Path, sys.argv[1:])
    task, orders = json.loads(asked.read_text()), json.loads(os.environ["FAKE_CHILD"])
    state = Path(orders["state"])
    started = counted(state / "all")
    number = "look" if task["kind"] == "look" else counted(state / task["scenario"])
    print(json.dumps({"at": "start", "step": 0}), flush=True)
    base = {"kind": task["kind"], "ending": "finished", "why": "", "environment": ENVIRONMENT,
            "cwd": str(Path.cwd())}
    if task["kind"] == "look":
        result = {**base, **looked(task)}
    else:
        result = {**base, **timed(task, orders, started)}
    doings = orders.get("do", {}).get(task["scenario"], {})
    doing = doings.get(str(number)) or doings.get("every")
    if doing:
        result = DOINGS[doing](result, state)
    print(json.dumps({"at": "block", "step": 5}), flush=True)
    beside = told.with_name("beside")
    beside.write_text(json.dumps(result))
    beside.replace(told)


def counted(file: Path) -> int:
    """How often this was asked before, from 0."""
    with file.open("a") as log:
        log.write(f"{os.getpid()}\n")
    return len(file.read_text().splitlines()) - 1


def timed(task: dict, orders: dict, started: int) -> dict:
    draws = random.Random(started)
    seconds = orders.get("step", 0.1) * orders.get("ratios", {}).get(task["scenario"], 1.0)
    seconds *= 1 + orders.get("drift", 0.0) * started
    blocks = [seconds * (1 + draws.gauss(0, orders.get("noise", 0.002)))
              for _ in range(task["timing"]["blocks"])]
    now = time.monotonic()
    return {
        "first_step_seconds": 1.0, "build_seconds": 0.1, "warmup_steps": 10, "steady": True,
        "window": [now, now + 0.01], "steps_per_block": 1, "blocks": blocks, "steps": [],
        "skipped": 0, "void_blocks": 0, "losses": {"first": 7.0, "last": 6.0},
        "memory": {"allocated": None, "reserved": None, "active": None, "retries": None,
                   "process": 1 << 28},
        "optimizer_peak": None, "data_wait": None,
        "launches": {"instrument": None, "controls": [], "step": []}, "files": {},
        "weights": "made up", "ranks": None}


def looked(task: dict) -> dict:
    losses = [7 - 2 * step / task["parity"]["steps"] for step in range(task["parity"]["steps"])]
    return {
        "phases": {"forward": 0.03, "backward": 0.05, "optimizer": 0.02, "scaler": None},
        "step_seconds": 0.1, "kernels": [],
        "launches": {"instrument": None, "controls": [], "step": []}, "files": {},
        "gpu_busy": None, "kernels_per_step": 0, "attention": ["flash-cpu"],
        "product_error": 1e-7, "syncs": None, "warnings": [], "trace": None,
        "norm_dtypes": {"input": "float32", "weight": "float32", "output": "float32"},
        "optimizer_state": {"dtypes": {"exp_avg": "float32"}, "bytes": 1 << 20},
        "parity": {"losses": losses, "gradient_error": 1e-6, "update_error": 1e-6},
        "seeds": [losses] * 3 if task["parity"]["baseline"] else None}


def crash(result: dict, state: Path) -> dict:
    raise ZeroDivisionError("made up")


def hang(result: dict, state: Path) -> dict:
    time.sleep(600)
    return result


def slow(result: dict, state: Path) -> dict:
    """Takes 2 seconds, and says so all the time."""
    for step in range(8):
        print(json.dumps({"at": "warm-up", "step": step}), flush=True)
        time.sleep(0.25)
    return result


def kill(result: dict, state: Path) -> dict:
    os.kill(os.getpid(), signal.SIGKILL)
    return result


def quiet_end(result: dict, state: Path) -> dict:
    sys.exit(0)


def orphan(result: dict, state: Path) -> dict:
    """Leaves a process in a session of its own behind, which holds stdout open."""
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (state / "orphan").write_text(str(left.pid))
    return result


def chatter(result: dict, state: Path) -> dict:
    sys.stderr.write("words without end\n" * 100_000)
    sys.stdout.write("no progress\n" * 100_000)
    raise RuntimeError("after many words")


def failed(why: str):
    return lambda result, state: {**{key: result[key] for key in ("kind", "environment")},
                                  "ending": "failed", "why": why}


DOINGS = {
    "crash": crash, "hang": hang, "kill": kill, "quiet-end": quiet_end, "orphan": orphan,
    "chatter": chatter, "slow": slow,
    "oom": failed("out of memory: CUDA out of memory. Tried to allocate 20.00 GiB (made up)"),
    "nan": failed("the loss is not finite (nan) after 12 steps"),
    "vanish": failed("RuntimeError: No CUDA GPUs are available (made up)"),
}

if __name__ == "__main__":
    main()
