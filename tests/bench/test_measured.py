"""Two results that were measured on an H200, with the stand-in in place of Apex: what is said of
them, and that nothing of it is said of Apex."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from apexlab.bench.result import result_file

MEASURED = Path(__file__).with_name("measured")
SCHEMA = result_file.SCHEMA_FILE


@pytest.fixture(scope="module", params=["train", "ops"])
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(kind, tmp_path_factory) -> Path:
    """The reports of a result, as the command writes them."""
    place = tmp_path_factory.mktemp(kind)
    shutil.copy(MEASURED / f"h200-{kind}.json", place / "result.json")
    program = Path(sys.executable).with_name("apexlab")
    done = subprocess.run([program, "bench", "report", place], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (place / "terminal.txt").write_text(done.stdout)
    return place


def test_it_is_a_result_by_the_schema(kind):
    result = json.loads((MEASURED / f"h200-{kind}.json").read_text())
    jsonschema.validate(result, json.loads(SCHEMA.read_text()))
    assert result["environment"]["device"] == "NVIDIA H200"


def test_no_figure_of_the_stand_in_carries_the_name_of_apex(kind):
    result = json.loads((MEASURED / f"h200-{kind}.json").read_text())
    rows = result.get("scenarios") or result["points"]
    assert {row["label"] for row in rows} == {None, "stand-in"}
    assert not any("apex" in (row.get("title") or "").lower() for row in rows)
    for answer in result["advice"]:
        if answer["verdict"] not in ("obsolete", "untested") and "tand-in" in answer["part"]:
            assert "says nothing about Apex" in answer["sentence"]
    assert "nothing is said of Apex" in result["headline"]


def test_every_report_says_first_that_it_is_the_stand_in(folder):
    for name in ("terminal.txt", "report.md"):
        assert "stand-in" in (folder / name).read_text()[:600], name
    page = (folder / "report.html").read_text()
    text = re.sub(r"<[^>]+>", " ", page[page.index("<body"):])
    assert "stand-in" in text[:1500]
    assert len(page.encode()) < 1_500_000
    assert not re.search(r"(?:src|href)=[\"']https?:", page)


def test_the_table_has_every_block_and_every_clock(folder, kind):
    result = json.loads((folder / "result.json").read_text())
    with (folder / "result.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    if kind == "train":
        found = [row for row in rows if row["metric"] == "time" and row["block"]]
        assert len(found) == sum(len(one["blocks"]) for each in result["scenarios"]
                                 for one in each["time"]["rounds"]) == 21 * 2 * 5
    else:
        found = [row for row in rows if row["metric"] == "call_median"]
        assert len(found) == sum(each["call_us"] is not None for each in result["points"]) > 100
