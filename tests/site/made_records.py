"""A folder of records, as publishing leaves them.

The verify report is a real one, of an H200 (tests/verify/reports), and so are the benchmark's
figures (tests/bench/measured); what names an image around them is made up for the tests.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

from apexlab.bench.report.page.page import page
from apexlab.build.matrix import load
from apexlab.build.publish.sign import identity_of
from apexlab.build.publish.subject import record_hash
from apexlab.verify.html.document import PASSIVE
from apexlab.verify.record import parse_record

ROOT = Path(__file__).resolve().parents[2]
PROVEN = json.loads((ROOT / "tests/verify/reports/h200-proven.json").read_text())
for _one in PROVEN["extensions"]:  # two calls of each will do, and are read ten times as fast
    _one["proofs"] = _one["proofs"][:2]
MEASURED = json.loads((ROOT / "tests/bench/measured/h200-train.json").read_text())
SLUG, IMAGE, DIGEST = "torch2.11-cuda13.0", "registry.example/team/apexlab", "sha256:" + "ab" * 32
CELL = next(cell for cell in load().cells if (cell.torch, cell.cuda) == ("2.11.0", "13.0"))
TIME = "2026-02-03T05:00:00+00:00"


def record(source: str = "apex") -> dict:
    return {
        "schema": "apexlab.record/1", "source": source,
        "apex": {"commit": CELL.ref if source == "apex" else None, "tree": "7" * 64},
        "torch": {"version": "2.11.0+cu130", "cuda": "13.0"}, "toolkit": {"nvcc": "13.0.88"},
        "python": {"tag": "cp310", "platform": "linux_x86_64"},
        "archs": [str(arch) for arch in CELL.archs], "profile": "core",
        "requested": [one["name"] for one in PROVEN["extensions"]],
        "built": [{"name": one["name"], "file": f"{one['name']}.so", "bytes": 1_000_000,
                   "sha256": one["sha256"], "targets": ["sm_90"], "ptx": []}
                  for one in PROVEN["extensions"]],
        "wheel": {"name": "apex-0.1-cp310-cp310-linux_x86_64.whl", "sha256": None},
        "created": "2026-02-03T04:05:06+00:00",
    }  # fmt: skip


def report(source: str = "apex") -> dict:
    return {**copy.deepcopy(PROVEN), "image": DIGEST, "created": TIME, "record": record(source)}


def at_load(made: dict) -> dict:
    extensions = [{**one, "status": "loaded", "proofs": []} for one in made["extensions"]]
    environment = {**made["environment"], "devices": [], "driver": None, "instruments": []}
    return {**made, "verdict": "ok", "level_asked": "load", "level_reached": "load",
            "extensions": extensions, "environment": environment}


def published(made: dict, **more) -> dict:
    """What `apexlab publish --json` prints for an image with this report."""
    return {
        "schema": "apexlab.published/1", "cell": SLUG, "image": IMAGE, "digest": DIGEST,
        "tags": [{"name": f"{SLUG}-20260203-abababab", "moves": False},
                 {"name": SLUG, "moves": True}],
        "source": made["record"]["source"],
        "record": record_hash(parse_record(json.dumps(made["record"]), "made")),
        "level": made["level_reached"], "bytes": 4_210_000_000,
        "created": "2026-02-03T04:05:06+00:00", "published": TIME,
        "trust": {"identity": identity_of("team/apexlab"), "repository": "team/apexlab",
                  "issuer": "https://token.actions.githubusercontent.com"}, **more}


def bench(source: str = "standin", **more) -> dict:
    """The benchmark of the stand-in; without its figures where it is to be that of Apex."""
    made = {**copy.deepcopy(MEASURED), "record": record(source), "state": "complete"}
    if source == "apex":
        made |= {"headline": "Made up for a test: Apex FusedAdam pays.", "advice": [
            {"part": "Apex FusedAdam", "verdict": "use", "sentence": "Made up: use it."}]}
    return {**made, **more}


def put(folder: Path, made: dict | None = None, said: dict | None = None,
        result: dict | None = None, slug: str = SLUG, text: str | None = None) -> Path:
    """Write a cell's folder below `folder`, which is returned. `text`: what report.html has in it
    below the top that every report has."""
    made = report() if made is None else made
    place = folder / slug
    place.mkdir(parents=True)
    (place / "verify.json").write_text(json.dumps(made))
    (place / "published.json").write_text(json.dumps(published(made) if said is None else said))
    if result is not None:
        (place / "result.json").write_text(json.dumps(result))
        (place / "report.html").write_text(page(result) if text is None else PASSIVE + text)
    return folder
