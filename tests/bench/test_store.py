"""The folder of a run: what was written whole is kept, and nothing else is believed."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from runs import cpu_plan

from apexlab.bench.run import folder as folders
from apexlab.bench.run.store import opened, read_plan, read_rows
from apexlab.verify.errors import CannotError, UsageError


def begun(where):
    with opened(where) as store:
        folders.settle(cpu_plan(), store, False, None)
        store.append({"row": "subject", "number": 1})
    return where


def test_rows_come_back_as_they_were_written(tmp_path):
    where = begun(tmp_path / "deep" / "run")
    with opened(where) as store:
        store.append({"row": "run", "words": "ß\n", "number": 0.1})
    assert read_rows(where) == [{"row": "subject", "number": 1},
                                {"row": "run", "words": "ß\n", "number": 0.1}]
    assert read_plan(where)["scenarios"] == ["torch-fp32", "torch-fused-fp32"]


def test_a_torn_last_line_is_ignored_and_then_written_over(tmp_path):
    where = begun(tmp_path / "run")
    with (where / "runs.jsonl").open("a") as file:
        file.write('{"row": "run", "resu')
    assert len(read_rows(where)) == 1
    with opened(where) as store:
        store.append({"row": "run"})
    assert [row["row"] for row in read_rows(where)] == ["subject", "run"]


def test_a_damaged_line_is_named(tmp_path):
    where = begun(tmp_path / "run")
    with (where / "runs.jsonl").open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(UsageError, match="line 2"):
        read_rows(where)


def test_another_versions_plan_is_refused(tmp_path):
    where = begun(tmp_path / "run")
    plan = {**read_plan(where), "schema": "apexlab.bench-plan/9"}
    (where / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UsageError, match="bench-plan/9"):
        read_plan(where)


def test_a_row_that_does_not_fit_leaves_the_file_as_it_was(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small],
                             capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing may be mounted here")
    try:
        where = begun(small / "run")
        with opened(where) as store:
            with pytest.raises(CannotError, match="results before this one are kept"):
                while True:
                    store.append({"row": "run", "filling": "x" * 5000})
            kept = len(store.rows)
        assert kept > 3 and len(read_rows(where)) == kept
        assert (where / "runs.jsonl").read_bytes().endswith(b"}\n")
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotError, match="--out DIR"), opened(tmp_path / "file" / "run"):
        pass


def test_a_folder_with_a_run_is_not_begun_anew(tmp_path):
    where = begun(tmp_path / "run")
    with pytest.raises(UsageError, match="--resume"):
        folders.find(where, "cpu")
    assert folders.resumed(where) == where
    assert folders.find(tmp_path / "new", "cpu") == tmp_path / "new"
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "runs.jsonl").write_text("")
    with pytest.raises(UsageError, match="other results"):
        folders.find(tmp_path / "ops", "cpu")


def test_resuming_takes_the_newest_run_and_says_when_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "place", lambda: tmp_path)
    with pytest.raises(UsageError, match="no run in"):
        folders.resumed(None)
    with pytest.raises(UsageError, match="no run in"):
        folders.resumed(tmp_path / "absent")
    for number, name in enumerate(("b", "c", "a")):
        where = begun(tmp_path / name)
        os.utime(where / "runs.jsonl", (number, number))
    assert folders.resumed(None) == tmp_path / "a"


def test_more_rounds_may_be_asked_for_and_fewer_change_nothing(tmp_path):
    where = begun(tmp_path / "run")
    with opened(where) as store:
        assert folders.settle(cpu_plan(), store, True, 9).rounds == 9
        assert read_plan(where)["rounds"] == 9
        assert folders.settle(cpu_plan(), store, True, 2).rounds == 9
        assert folders.settle(cpu_plan(), store, True, None).rounds == 9
