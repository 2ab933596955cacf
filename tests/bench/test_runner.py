"""The runner with children that make their times up: what it runs, and what becomes of failures."""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs import PAIR, Quiet, cpu_plan, run

from apexlab.bench.planning.plan import Request, make_plan
from apexlab.bench.planning.preset_file import find_preset
from apexlab.bench.result import counted, stats
from apexlab.bench.run.store import opened, read_plan, read_rows
from apexlab.verify.errors import CannotError, UsageError

BASE, FUSED = PAIR


def runs_of(rows, scenario=None, control=False):
    return [row for row in rows if row["row"] == "run" and (scenario is None or (
        row["scenario"] == scenario and row["control"] == control))]


def finished(where):
    return counted.count(read_plan(where), read_rows(where))


def compared(where, margin=stats.MARGIN):
    found = finished(where)
    base, again = (list(found.blocks(BASE, control).values()) for control in (False, True))
    noise = stats.control(base, again)
    return stats.compare(base, list(found.blocks(FUSED).values()), margin=margin,
                         floor=noise.floor)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_looks_at_every_scenario_and_then_runs_all_rounds(tmp_path, monkeypatch):
    progress = Quiet()
    rows = run(cpu_plan(rounds=3), tmp_path / "run", {}, monkeypatch, progress=progress)
    assert [row["row"] for row in rows] == ["subject", "look", "look", *["run"] * 9]
    assert {(row["scenario"], row["control"]) for row in runs_of(rows)} == {
        (BASE, False), (BASE, True), (FUSED, False)}
    assert [row["round"] for row in runs_of(rows)] == [0] * 3 + [1] * 3 + [2] * 3
    assert all(row["result"]["ending"] == "finished" for row in runs_of(rows))
    assert finished(tmp_path / "run").finished == 3
    assert rows == read_rows(tmp_path / "run")
    assert [left for _, left in progress.began] == list(range(11, 0, -1))
    assert {"at": "start", "step": 0} in progress.lines


def test_what_a_cpu_cannot_do_is_said_without_starting_a_process(tmp_path, monkeypatch):
    plan = make_plan(Request(ladder="classic", device="cpu", rounds=1), find_preset("cpu"))
    rows = run(plan, tmp_path / "run", {}, monkeypatch)
    whys = {row["scenario"]: row["result"]["why"] for row in rows if row["row"] == "look"}
    assert whys == {BASE: "", "torch-amp-fp16": "FP16 is not available on a CPU.",
                    "apex-fp32": "Apex is not available on a CPU.",
                    "apex-amp-fp16": "FP16 and Apex are not available on a CPU."}
    started = (tmp_path / "run-state" / "all").read_text().splitlines()
    assert len(started) == 3  # one look, and the baseline twice


@pytest.mark.parametrize(("ratio", "verdict"), [
    (1.03, "SLOW"), (1.003, "SAME"), (1.0, "SAME"), (1 / 1.03, "FAST")])
def test_a_slowdown_of_3_percent_is_found_and_one_of_0_3_is_not_called(
        tmp_path, monkeypatch, ratio, verdict):
    run(cpu_plan(rounds=5), tmp_path / "run", {"ratios": {FUSED: ratio}}, monkeypatch)
    found = compared(tmp_path / "run")
    assert found.verdict == verdict, found
    assert abs(found.ratio * ratio - 1) < 0.004


def test_a_drift_misleads_one_run_after_the_other_and_not_rounds(tmp_path, monkeypatch):
    """Both scenarios are alike, and each process is 0.5 % slower than the one before."""
    where = tmp_path / "run"
    rows = run(cpu_plan(rounds=4), where, {"drift": 0.005, "noise": 0.0005}, monkeypatch)
    assert abs(compared(where).ratio - 1) < 0.005
    medians = [statistics.median(row["result"]["blocks"]) for row in runs_of(rows)]
    # The same processes as a sequential design would have run them: first all of the one.
    half = len(medians) // 2
    sequential = stats.compare([[time] for time in medians[:half]],
                               [[time] for time in medians[half:]])
    assert sequential.verdict == "SLOW" and sequential.ratio < 0.98


def test_a_process_that_is_killed_costs_its_own_run_alone(tmp_path, monkeypatch):
    where = tmp_path / "run"
    rows = run(cpu_plan(rounds=5), where, {"do": {FUSED: {"2": "kill"}}}, monkeypatch)
    endings = [row["result"]["ending"] for row in runs_of(rows, FUSED)]
    assert endings == ["finished", "finished", "failed", "finished", "finished"]
    failed = runs_of(rows, FUSED)[2]["result"]
    assert "killed by SIGKILL" in failed["why"] and "memory" in failed["why"]
    assert len(runs_of(rows, BASE)) == 5 and finished(where).finished == 5
    assert len(finished(where).blocks(FUSED)) == 4


@pytest.mark.parametrize(("doing", "words"), [
    ("crash", "ZeroDivisionError: made up"), ("quiet-end", "ended without a result"),
    ("nan", "the loss is not finite"), ("oom", "out of memory"),
    ("chatter", "after many words")])
def test_a_failure_is_a_row_that_says_why(tmp_path, monkeypatch, doing, words):
    rows = run(cpu_plan(rounds=1), tmp_path / "run", {"do": {FUSED: {"0": doing}}}, monkeypatch)
    result = runs_of(rows, FUSED)[0]["result"]
    assert result["ending"] == "failed" and words in result["why"]
    assert len(json.dumps(result)) < 10_000


def test_a_process_that_hangs_is_ended_and_called_hung(tmp_path, monkeypatch):
    rows = run(cpu_plan(rounds=1), tmp_path / "run", {"do": {FUSED: {"0": "hang"}}}, monkeypatch,
               silence=1.0)
    assert "hung" in runs_of(rows, FUSED)[0]["result"]["why"]
    pids = map(int, (tmp_path / "run-state" / "all").read_text().split())
    assert all(map(gone, pids))


def test_a_process_that_says_that_it_lives_may_take_its_time(tmp_path, monkeypatch):
    rows = run(cpu_plan(rounds=1), tmp_path / "run", {"do": {FUSED: {"0": "slow"}}}, monkeypatch,
               silence=1.0)
    assert runs_of(rows, FUSED)[0]["result"]["ending"] == "finished"


def test_what_a_child_leaves_behind_is_ended(tmp_path, monkeypatch):
    start = time.monotonic()
    rows = run(cpu_plan(rounds=1), tmp_path / "run", {"do": {FUSED: {"0": "orphan"}}}, monkeypatch)
    assert runs_of(rows, FUSED)[0]["result"]["ending"] == "finished"
    assert gone(int((tmp_path / "run-state" / "orphan").read_text()))
    assert time.monotonic() - start < 20


def test_a_scenario_that_always_fails_is_given_up_and_the_others_go_on(tmp_path, monkeypatch):
    rows = run(cpu_plan(rounds=5), tmp_path / "run", {"do": {FUSED: {"every": "crash"}}},
               monkeypatch)
    whys = [row["result"]["why"] for row in rows if row.get("scenario") == FUSED]
    assert len(whys) == 1 and "ZeroDivisionError" in whys[0]  # its look failed: no runs
    where = tmp_path / "again"
    rows = run(cpu_plan(rounds=5), where, {
        "do": {FUSED: {str(number): "crash" for number in range(5)}}}, monkeypatch)
    assert len(runs_of(rows, FUSED)) == 5 and finished(where).finished == 5
    assert (tmp_path / "again-state" / FUSED).read_text().count("\n") == 2
    assert runs_of(rows, FUSED)[4]["result"]["why"].startswith("not started")


def test_a_baseline_that_does_not_fit_ends_the_command(tmp_path, monkeypatch):
    with pytest.raises(CannotError, match="smaller batch in a preset of your own"):
        run(cpu_plan(), tmp_path / "run", {"do": {BASE: {"look": "oom"}}}, monkeypatch)
    with pytest.raises(CannotError, match="nothing was measured"):
        run(cpu_plan(), tmp_path / "two", {"do": {BASE: {"look": "crash"}}}, monkeypatch)


def test_resuming_runs_what_is_left_and_nothing_twice(tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(cpu_plan(rounds=4), whole, {}, monkeypatch)
    run(cpu_plan(rounds=2), cut, {}, monkeypatch)
    before = read_rows(cut)
    with (cut / "runs.jsonl").open("a") as file:  # killed while it wrote the next row
        file.write('{"row": "run", "round": 2, "att')
    (cut / "plan.json").write_text(json.dumps({**read_plan(cut), "rounds": 4}))
    rows = run(cpu_plan(rounds=4), cut, {}, monkeypatch, resume=True)
    assert rows[:len(before)] == before
    key = [(row["round"], row["attempt"], row["scenario"], row["control"])
           for row in runs_of(rows)]
    assert key == [(row["round"], row["attempt"], row["scenario"], row["control"])
                   for row in runs_of(read_rows(whole))]
    assert finished(cut).finished == 4


def test_a_round_that_was_cut_is_run_again_whole(tmp_path, monkeypatch):
    where = tmp_path / "run"
    run(cpu_plan(rounds=2), where, {}, monkeypatch)
    lines = (where / "runs.jsonl").read_text().splitlines(keepends=True)
    (where / "runs.jsonl").write_text("".join(lines[:-2]))  # two of three runs of round 1 missing
    rows = run(cpu_plan(rounds=2), where, {}, monkeypatch, resume=True)
    assert [(row["round"], row["attempt"]) for row in runs_of(rows)] == [
        (0, 0)] * 3 + [(1, 0)] + [(1, 1)] * 3
    found = finished(where)
    assert found.finished == 2


@pytest.mark.parametrize(("more", "words"), [
    ({"seed": 1}, "seed"), ({"quick": True}, "quick"), ({"margin": 0.1}, "margin")])
def test_another_configuration_is_not_gone_on_with(tmp_path, monkeypatch, more, words):
    run(cpu_plan(rounds=1), tmp_path / "run", {}, monkeypatch)
    with pytest.raises(UsageError, match=words):
        run(cpu_plan(rounds=1, **more), tmp_path / "run", {}, monkeypatch, resume=True)


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import pytest
from pathlib import Path
from runs import *
plan = cpu_plan(rounds=30)
with pytest.MonkeyPatch.context() as patch:
    run(plan, Path({where!r}), {orders!r}, patch, resume={resume!r})
"""


def in_a_process(where, orders, resume=False, **more):
    script = SCRIPT.format(here=str(Path(__file__).parent), where=str(where), orders=orders,
                           resume=resume)
    return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, **more)


def wait_for_rows(where, count):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if len(read_rows(where)) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"never had {count} rows")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_stopped_loses_nothing_that_was_finished(tmp_path, monkeypatch, number):
    where = tmp_path / "run"
    process = in_a_process(where, {})
    wait_for_rows(where, 12)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode != 0
    kept = (where / "runs.jsonl").read_bytes().rpartition(b"\n")[0].splitlines()
    more = len(kept) // 3 + 1
    plan = {**read_plan(where), "rounds": more}
    (where / "plan.json").write_text(json.dumps(plan))
    rows = run(cpu_plan(rounds=more), where, {}, monkeypatch, resume=True)
    assert [json.loads(line) for line in kept] == rows[:len(kept)]
    assert finished(where).finished == more


def test_ctrl_c_leaves_no_process_behind(tmp_path):
    where = tmp_path / "run"
    process = in_a_process(where, {"do": {BASE: {"1": "hang"}}})
    wait_for_rows(where, 4)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    pids = map(int, (tmp_path / "run-state" / "all").read_text().split())
    assert all(map(gone, pids))


def test_two_commands_do_not_write_one_folder(tmp_path, monkeypatch):
    with opened(tmp_path / "run"), pytest.raises(CannotError, match="Another apexlab"):
        run(cpu_plan(), tmp_path / "run", {}, monkeypatch)


def test_a_full_disk_says_what_is_kept(tmp_path):
    where = tmp_path / "run"

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = in_a_process(where, {}, preexec_fn=limit)
    _, said = process.communicate(timeout=60)
    rows = read_rows(where)
    assert process.returncode != 0 and len(rows) > 3
    assert f"The {len(rows)} results before this one are kept" in said.decode()
    assert (where / "runs.jsonl").read_bytes().endswith(b"\n")


def test_a_baseline_that_failed_is_looked_at_again(tmp_path, monkeypatch):
    """Its process was killed by chance: the run goes on, where it would be lost for ever."""
    where = tmp_path / "run"
    with pytest.raises(CannotError, match="does not run here"):
        run(cpu_plan(rounds=1), where, {"do": {BASE: {"look": "kill"}}}, monkeypatch)
    rows = run(cpu_plan(rounds=1), where, {}, monkeypatch, resume=True)
    assert [row["result"]["ending"] for row in rows
            if row["row"] == "look" and row["scenario"] == BASE] == ["failed", "finished"]
    assert len(runs_of(rows)) == 3


def test_a_run_is_not_gone_on_with_under_another_apex(tmp_path, monkeypatch):
    where = tmp_path / "run"
    run(cpu_plan(rounds=1), where, {}, monkeypatch)
    path = where / "runs.jsonl"
    path.write_text(path.read_text().replace('"present": false', '"present": true', 1))
    before = path.read_text()
    with pytest.raises(UsageError, match="changed within this run"):
        run(cpu_plan(rounds=2), where, {}, monkeypatch, resume=True)
    assert path.read_text() == before
