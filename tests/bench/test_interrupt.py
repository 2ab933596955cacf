"""The command that is stopped, with made-up children: its report, its exit code, its going on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apexlab.bench.report.deliver import exit_code
from apexlab.bench.run.store import read_rows

SCRIPT = """
import functools, sys
sys.path.insert(0, {here!r})
from runs import fake
from apexlab.bench import cmd_train
from apexlab.bench.run import station
from apexlab.verify import main
station.station = functools.partial(station.station, start=fake)
cmd_train._require = lambda *_: None
sys.exit(main.run(sys.argv[1:]))
"""


def command(where, *more, orders=None, hangup=signal.SIG_DFL):
    """Started as from a terminal, whatever started the tests (`nohup`, a job in the background)."""
    state = where.with_name("state")
    state.mkdir(exist_ok=True)
    orders = json.dumps({"state": str(state), **(orders or {})})
    script = SCRIPT.format(here=str(Path(__file__).parent))
    return subprocess.Popen(
        [sys.executable, "-c", script, "bench", "train", "--device", "cpu", "--scenarios",
         "torch-fused-fp32", "--out", str(where), *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "FAKE_CHILD": orders},
        preexec_fn=lambda: (signal.signal(signal.SIGINT, signal.SIG_DFL),
                            signal.signal(signal.SIGHUP, hangup)))


def wait_for_rows(where, count):
    until = time.monotonic() + 30
    while len(read_rows(where)) < count:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_command_reports_what_is_finished_and_says_how_to_go_on(tmp_path, number):
    where = tmp_path / "run"
    process = command(where, "--rounds", "8")
    wait_for_rows(where, 4 + 3 * 3)  # three whole rounds, and a row of the next at most
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "speed" in out
    again = re.search(r"apexlab (bench train .*--resume --out \S+)", err)[1]
    assert again == f"bench train --resume --out {where}"
    result = json.loads((where / "result.json").read_text())
    assert result["state"] == "partial" and 3 <= result["plan"]["rounds_finished"] < 8
    assert (where / "report.html").exists()
    if number != signal.SIGINT:
        return
    before = read_rows(where)
    process = command(where, "--rounds", "8", "--resume")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads((where / "result.json").read_text())["state"] == "complete"
    assert read_rows(where)[:len(before)] == before


def test_under_nohup_a_hangup_changes_nothing(tmp_path):
    where = tmp_path / "run"
    process = command(where, "--rounds", "2", hangup=signal.SIG_IGN)
    wait_for_rows(where, 3)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads((where / "result.json").read_text())["state"] == "complete"


@pytest.mark.parametrize(("name", "sound", "harm"), [
    ("runs.jsonl", '"result": {', '"resul": {'), ("plan.json", '"rounds": 1', '"rounds": "x"')])
def test_what_is_damaged_is_not_gone_on_with(tmp_path, name, sound, harm):
    where = tmp_path / "run"
    _, err = command(where, "--rounds", "1").communicate(timeout=60)
    path = where / name
    assert sound in path.read_text(), err
    path.write_text(path.read_text().replace(sound, harm))
    rows = (where / "runs.jsonl").read_text()
    process = command(where, "--rounds", "2", "--resume")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "damaged" in err and out == ""
    assert (where / "runs.jsonl").read_text() == rows


def test_json_is_the_only_thing_on_stdout(tmp_path):
    process = command(tmp_path / "run", "--rounds", "1", "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out) == json.loads((tmp_path / "run" / "result.json").read_text())
    assert "The baseline torch-fp32 is measured as well" in err


def test_a_scenario_that_fails_ends_with_1_and_its_reason_in_the_result(tmp_path):
    process = command(tmp_path / "run", "--rounds", "2",
                      orders={"do": {"torch-fused-fp32": {"look": "nan"}}})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "the loss is not finite" in out


def scenario(state="measured", parity="pass", proof="not-needed"):
    return {"state": state, "parity": {"verdict": parity}, "proof": {"verdict": proof}}


@pytest.mark.parametrize(("scenarios", "code"), [
    ([scenario()], 0), ([scenario("not-available", "untested", "not-proven")], 0),
    ([scenario("partial")], 0), ([scenario("failed")], 1), ([scenario(parity="fail")], 1),
    ([scenario(proof="not-proven")], 5), ([scenario(proof="blind")], 0),
    ([scenario(proof="not-proven"), scenario("failed")], 1)])
def test_the_exit_code_says_the_gravest_thing(scenarios, code):
    assert exit_code({"scenarios": scenarios}) == code
