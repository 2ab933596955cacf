"""The result of the operations, `apexlab.bench/1` of the kind `ops`: from rows to figures. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apexlab.bench.ops import judge
from apexlab.bench.ops.providers import TITLES
from apexlab.bench.ops.questions import CONTROL
from apexlab.bench.planning.configuration import configuration_hash
from apexlab.bench.result import stats
from apexlab.bench.result.flags import warned
from apexlab.bench.result.labels import STAND_IN
from apexlab.bench.result.result import SCHEMA, environment, finite
from apexlab.bench.result.warn import environments
from apexlab.verify.errors import FALLBACK, OK, PROBLEM

Row = Mapping[str, Any]
KINDS = ("cold", "hot", "host", "call")
KEY = ("op", "case", "dtype", "autocast", "direction", "provider")


def make_result(rows: Sequence[Row]) -> dict[str, Any]:
    """The whole document. The same rows give the same one, whenever and wherever it is made."""
    request, subject = (next(row for row in rows if row["row"] == kind)
                        for kind in ("request", "subject"))
    processes = [row for row in rows if row["row"] == "process"]
    seed, device = request["seed"], request["configuration"]["device"]
    copies = {row["op"]: row["copy_gbps"] for row in processes}
    apex = subject["apex"]
    # What a run was cut off in is measured again, and counts then.
    samples = list({point_key(row): row for row in rows if row["row"] == "point"}.values())
    labelled = [{**row, "label": _label(row, apex)} for row in samples]
    here = environment({"baseline": None}, processes, apex, subject["record"])
    where = f"{here['device'] or 'this machine'}, torch {here['torch'] or '(unknown)'}"
    answers = judge.answers(labelled, request["preset"], apex["label"], seed)
    found = {
        "schema": SCHEMA, "kind": "ops", "version": request["version"],
        "created": rows[-1]["time"], "state": "complete" if len(samples) == request["points"]
        else "partial", "configuration": request["configuration"],
        "configuration_hash": configuration_hash(request["configuration"]), "environment": here,
        "record": subject["record"],
        "copy_gbps": statistics.median(known) if (known := [one for one in copies.values() if one])
        else None,
        "noise": [_noise(op, kind, found) for op in dict.fromkeys(row["op"] for row in samples)
                  for kind in ("call", "cold") if (found := judge.noise(
                      [row for row in samples if row["op"] == op], kind, seed))],
        "points": [_point(row, copies.get(row["op"])) for row in labelled],
        "advice": [each.said for each in answers],
        "headline": judge.headline(answers, where, apex, device)}
    found["warnings"] = list(_warnings(found, samples, processes, request["points"]))
    return dict(finite(found))


def point_key(row: Row) -> tuple[Any, ...]:
    """What tells a point from all others of a run."""
    return tuple(row[key] for key in KEY)


def _noise(op: str, kind: str, found: stats.Control) -> dict[str, Any]:
    """Of one operation and clock, the baseline against itself over all cases."""
    span = found.comparison.interval
    return {"op": op, "kind": kind, "provider": CONTROL[op], "noise": found.noise,
            "floor": found.floor if span else None, "ratio": found.comparison.ratio,
            "low": span and span.low, "high": span and span.high}


def _label(row: Row, apex: Row) -> str | None:
    """Proven in the very process, call by call."""
    proven = row["proof"] is not None and row["proof"]["verdict"] == "proven"
    return apex["label"] if proven else None


def _point(row: Row, copy: float | None) -> dict[str, Any]:
    times = {f"{kind}_us": _summary((row["us"] or {}).get(kind)) for kind in KINDS}
    cold = times["cold_us"]
    gbps = row["least_bytes"] / cold["median"] / 1e3 if cold and cold["median"] else None
    return {
        **{key: row[key] for key in ("op", "case", "dtype", "autocast", "direction", "provider")},
        "title": _title(row), "label": row["label"], "state": row["state"], "why": row["why"],
        **times, "least_bytes": row["least_bytes"], "gbps": gbps,
        "share_of_copy": gbps / copy if gbps and copy else None, "proof": row["proof"],
        "version": row.get("version"), "moment": row["moment"], "error": row["error"],
        "compile_seconds": row["compile_seconds"],
        "clock": None if cold is None else "events" if row["clock_why"] else "profiler"}


def _title(row: Row) -> str:
    """What may be shown: a provider of Apex carries its name only where it was proven."""
    name = str(row["provider"])
    if not name.startswith("apex") or row["state"] != "measured" or row["label"] == "Apex":
        return " ".join(filter(None, (TITLES[name], row.get("version"))))
    proven = row["proof"] is not None and row["proof"]["verdict"] == "proven"
    other = row["label"] or ("unrecorded" if proven else "not proven to be Apex")
    return TITLES[name].replace("Apex", other)


def _summary(rounds: Sequence[Sequence[float]] | None) -> dict[str, Any] | None:
    """Over the samples of all rounds."""
    samples = [us for one in rounds or () for us in one if us > 0]
    if not samples:
        return None
    found = stats.summary(samples)
    return {"median": found.median, "iqr": found.iqr, "count": found.count}


def _warnings(result: Row, samples: Sequence[Row], processes: Sequence[Row], planned: int,
              ) -> Iterable[str]:
    """The gravest first."""
    if result["environment"]["apex"]["label"] == STAND_IN:
        yield ("The stand-in is installed in place of Apex: it has the same interface and other "
               "code, so nothing here says anything about Apex.")
    if result["state"] == "partial":
        yield f"{len(samples)} of {planned} points were finished."
    if names := _named(row for row in samples if row["state"] == "failed"):
        yield f"These failed, and say why in the table: {names}."
    if names := _named(row for row in samples if row["proof"] is not None
                       and row["proof"]["verdict"] != "proven"):
        yield f"Not proven to have run Apex's kernels, and so not called Apex: {names}."
    if result["environment"]["apex"]["label"] is None and (names := _named(
            row for row in samples if row["proof"] is not None
            and row["proof"]["verdict"] == "proven")):
        yield ("No build record says that the extensions here are NVIDIA Apex's, so the name is "
               f"withheld from: {names}.")
    yield from warned({row["op"]: row["causes"] for row in processes})
    yield from environments(processes)
    if whys := sorted({row["clock_why"] for row in samples
                       if row["clock_why"] and (row["us"] or {}).get("cold")}):
        yield (f"Kernel times are from CUDA events, and hold the latency of launches: "
               f"{'; '.join(whys)}.")


def _named(rows: Iterable[Row]) -> str:
    named = itertools.groupby(dict.fromkeys((row["op"], row["provider"]) for row in rows),
                              key=lambda pair: pair[0])
    return "; ".join(f"{op} by {', '.join(name for _, name in pairs)}" for op, pairs in named)


def exit_codes(result: Row) -> list[int]:
    """What cannot run here is no problem; what failed or ran other code than Apex's is."""
    codes = [OK]
    for point in result["points"]:
        if point["state"] == "failed":
            codes.append(PROBLEM)
        if (point["proof"] or {}).get("verdict") == "not-proven":
            codes.append(FALLBACK)
    return codes
