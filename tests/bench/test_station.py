"""What surrounds a process: other programs on the GPU, a GPU that vanishes, what is recorded."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest
from runs import Quiet, cpu_plan, fake

from apexlab.bench.planning.scenario import scenarios
from apexlab.bench.run import folder as folders
from apexlab.bench.run import station as stations
from apexlab.bench.run import task
from apexlab.bench.run.apex import Subject
from apexlab.bench.run.launch import WORKER, Launcher, last_words, worker
from apexlab.bench.run.station import Station, VanishedError, refuse_vanished
from apexlab.bench.run.store import opened
from apexlab.bench.run.telemetry import Sample
from apexlab.bench.run.train import Runner
from apexlab.verify.errors import CannotError

BASE = scenarios()["torch-fp32"]


class MadeUpWatch:
    """In place of NVML: 400 W all the time, and what else a test says."""

    def __init__(self, others=(), uuid="", lost="", throttle=0):
        self.why_none, self.lost = "", lost
        self._others, self._uuid, self._throttle = list(others), uuid, throttle

    def others(self):
        return self._others.pop(0) if self._others else []

    def uuids(self):
        return [self._uuid]

    def start(self):
        self._started = time.monotonic()

    def stop(self):
        return [[Sample(self._started - 10 + 0.001 * number, power_watts=400.0,
                        throttle=self._throttle, energy_joules=0.4 * number)
                 for number in range(30_000)]]


def made(tmp_path, monkeypatch, watch, shared=False, **orders):
    (tmp_path / "state").mkdir(exist_ok=True)
    monkeypatch.setenv("FAKE_CHILD", json.dumps({"state": str(tmp_path / "state"), **orders}))
    return Station(Launcher(tmp_path, os.environ, 30.0, fake), Quiet(), watch, None, shared)


def ran(station, plan=None):
    return station.run(task.time_task(plan or cpu_plan(), BASE), "a run", [("time", BASE.name)])


def test_another_program_on_the_gpu_stops_the_run_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(stations, "_LEAVING_SECONDS", 0.1)
    words = ["process 4711 (python)"]
    station = made(tmp_path, monkeypatch, MadeUpWatch([words] * 100))
    with pytest.raises(CannotError, match=r"process 4711 \(python\).*--allow-shared-gpu"):
        ran(station)
    assert not (tmp_path / "state" / "all").exists()
    shared = made(tmp_path, monkeypatch, MadeUpWatch([words] * 100), shared=True)
    assert ran(shared).result["ending"] == "finished"


def test_a_process_that_is_just_leaving_the_gpu_is_waited_for(tmp_path, monkeypatch):
    station = made(tmp_path, monkeypatch, MadeUpWatch([["process 1"], ["process 1"]]))
    assert ran(station).result["ending"] == "finished"


def test_the_window_of_the_process_is_what_is_recorded(tmp_path, monkeypatch):
    found = ran(made(tmp_path, monkeypatch, MadeUpWatch(throttle=0x4)))
    # a child's made-up window lasts 10 ms, which at 400 W are 4 J
    assert found.telemetry["energy_joules"] == pytest.approx(4.0, rel=0.01)
    assert found.telemetry["throttle"] == ["sw-power-cap"] and found.why == ""


def test_samples_of_another_gpu_are_not_taken_for_this_one():
    assert stations._another({"environment": {"uuid": "GPU-AA"}}, ["aa"]) == ""
    assert stations._another({"environment": {"uuid": "aa"}}, ["aa", "bb"]) == ""
    assert stations._another({"environment": {"uuid": None}}, ["aa"]) == ""
    assert "another GPU" in stations._another({"environment": {"uuid": "cc"}}, ["aa"])


@pytest.mark.parametrize("why", [
    "RuntimeError: No CUDA GPUs are available", "CUDA error: no CUDA-capable device is detected"])
def test_a_vanished_gpu_is_told_from_other_failures(why):
    with pytest.raises(VanishedError):
        refuse_vanished("", why)
    with pytest.raises(VanishedError):
        refuse_vanished("GPU is lost", "anything")
    refuse_vanished("", "out of memory: CUDA out of memory")
    refuse_vanished("", "its process was killed by SIGKILL")


def test_a_vanished_gpu_stops_the_command_and_keeps_what_was_finished(tmp_path, monkeypatch):
    plan = cpu_plan(rounds=3)
    station = made(tmp_path, monkeypatch, MadeUpWatch(), do={BASE.name: {"3": "vanish"}})
    with opened(tmp_path / "run") as store:
        folders.settle(plan, store, False, None)
        with pytest.raises(CannotError, match=r"vanished.*--resume"):
            Runner(plan, store, station, Subject(present=False)).run()
        runs = [row for row in store.rows if row["row"] == "run"]
        assert runs and all(row["result"]["ending"] == "finished" for row in runs)


def test_a_disturbed_round_is_run_again_twice_and_then_counts(tmp_path, monkeypatch):
    plan = cpu_plan(rounds=1)
    station = made(tmp_path, monkeypatch, MadeUpWatch(throttle=0x40))
    with opened(tmp_path / "run") as store:
        folders.settle(plan, store, False, None)
        Runner(plan, store, station, Subject(present=False)).run()
        runs = [row for row in store.rows if row["row"] == "run"]
    assert [row["attempt"] for row in runs] == [0] * 3 + [1] * 3 + [2] * 3
    assert all(row["causes"] == ["thermal-slowdown"] for row in runs)


def test_several_gpus_are_started_by_torchrun_and_measured_beside_one(tmp_path, monkeypatch):
    assert worker(1) == (sys.executable, "-m", WORKER)
    command = list(worker(4))
    assert command[1:3] == ["-m", "torch.distributed.run"] and command[-2:] == ["-m", WORKER]
    assert command[command.index("--nproc-per-node") + 1] == "4"
    plan = cpu_plan(rounds=1, gpus=2)
    asked = []
    station = made(tmp_path, monkeypatch, None)
    launcher = Launcher(tmp_path, os.environ, 30.0, lambda gpus: asked.append(gpus) or fake(gpus))
    station = Station(launcher, station.progress, None, None, False)
    with opened(tmp_path / "run") as store:
        folders.settle(plan, store, False, None)
        Runner(plan, store, station, Subject(present=False)).run()
        runs = [row for row in store.rows if row["row"] == "run"]
    assert asked[:2] == [1, 1] and sorted(asked[2:]) == [1, 1, 2, 2, 2]  # looks; runs
    assert all((row["single"] is None) == row["control"] for row in runs)


def test_every_process_has_the_same_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("LD_PRELOAD", "/made/up.so")
    assert stations.variables("cuda", None) == dict(os.environ)
    library = tmp_path / "liblaunches.so"
    assert stations.variables("cuda", library) == {
        **os.environ, "LD_PRELOAD": f"{library} /made/up.so"}
    assert stations.variables("cpu", None)["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert stations.variables("cpu", None) == dict(os.environ)


def test_a_python_that_cannot_be_started_is_said(tmp_path):
    launcher = Launcher(tmp_path, os.environ, 1.0, lambda gpus: ("/nowhere/python",))
    with pytest.raises(CannotError, match="/nowhere/python"):
        launcher.run(task.time_task(cpu_plan(), BASE))


def test_the_process_starts_where_no_module_of_the_users_is(tmp_path, monkeypatch):
    found = ran(made(tmp_path, monkeypatch, None))
    assert found.result["cwd"] == str(tmp_path / "empty")
    assert not any((tmp_path / "empty").iterdir())


def test_the_last_words_are_one_short_line():
    assert last_words(b"first\nlast one  \n\n") == "last one"
    assert last_words(b"") == "" and len(last_words(b"x" * 9999)) == 400
    assert last_words(b"\xff\xfe broken") == "\ufffd\ufffd broken"


def test_processes_that_share_the_cores_are_told_their_share(monkeypatch):
    """So that torchrun has nothing to set, and to warn of."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    share = stations.variables("cuda", None, 2)["OMP_NUM_THREADS"]
    assert share == str(max(1, stations.cores() // 2))
    assert "OMP_NUM_THREADS" not in stations.variables("cuda", None)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert stations.variables("cuda", None, 2)["OMP_NUM_THREADS"] == "3"
