"""The report in Markdown: the answer first, then what it rests on, then how it was measured. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.markdown_table import cell, table
from apexlab.bench.report.markdown_train import tables
from apexlab.bench.report.terminal_ops import notes
from apexlab.bench.result.advice import told
from apexlab.bench.result.flags import legend
from apexlab.bench.result.labels import STAND_IN, point_name, provider_name

Result = Mapping[str, Any]


def markdown(result: Result) -> str:
    """report.md."""
    lines = [*_answer(result), *(tables(result) if result["kind"] == "train" else _ops(result)),
             *_environment(result)]
    if result["kind"] == "train":
        lines += [*_settings(result), *_method(result)]
    return "\n".join(lines) + "\n"


def _answer(result: Result) -> Iterator[str]:
    kind = "training" if result["kind"] == "train" else "operators"
    yield from (f"# apexlab bench: {kind}", "", f"**{cell(result['headline'])}**", "")
    for each in result["advice"]:
        if each["evidence"]:
            yield f"- {cell(each['sentence'])}"
    for other in told(result["advice"]):
        yield f"- {cell(other.sentence)}"
    yield ""
    for warning in result["warnings"]:
        yield f"> {cell(warning)}"
        yield ">"
    yield ""


def _ops(result: Result) -> Iterator[str]:
    yield from ("## Operators", "")
    yield from table(("operator", "by", "cold", "hot", "host", "a call", "GB/s", "of copy",
                      "proof"), map(_point, result["points"]))
    yield ""
    for note in notes(result):
        yield from (note, "")


def _point(each: Result) -> Sequence[str]:
    name = provider_name(each)
    if each["label"] == STAND_IN and STAND_IN not in name:
        name = f"{name} ({STAND_IN})"
    if not (each["cold_us"] or each["call_us"]):
        return (point_name(each), name, each["state"].replace("-", " "), "", "", "", "", "",
                each["why"])
    return (point_name(each), name, *(words.microseconds((each[key] or {}).get("median"))
            for key in ("cold_us", "hot_us", "host_us", "call_us")),
            words.number(each["gbps"]), words.percent(each["share_of_copy"], 0),
            (each.get("proof") or {}).get("verdict", ""))


def _environment(result: Result) -> Iterator[str]:
    here = result["environment"]
    yield from ("## Where", "")
    rows = [("device", here.get("device")), ("driver", here.get("driver")),
            ("torch", here.get("torch")), ("CUDA", here.get("cuda")),
            ("Python", here.get("python")), ("Apex", words.apex(here.get("apex") or {})),
            ("CPU", f"{here.get('cpu')}, {here.get('cores')} cores"),
            ("image", here.get("image")), ("measured", result["created"]),
            ("apexlab", result["version"]), ("configuration", result["configuration_hash"])]
    rows += [(name, value) for name, value in (here.get("variables") or {}).items()]
    yield from table(("what", "which"), ((name, value or "none") for name, value in rows))
    yield ""


def _settings(result: Result) -> Iterator[str]:
    keys = ("dtype", "autocast", "scaler", "tf32", "optimizer", "norm", "compile", "graph",
            "capturable")
    titles = {each["name"]: each["title"] for each in result["scenarios"]}
    label = result["environment"]["apex"]["label"]
    yield from ("## Settings", "")
    yield from table(("scenario", *keys, "against", "changes"), (
        (each["title"], *(_switch(each["settings"][key], label) for key in keys),
         titles.get(each["against"], ""), ", ".join(each["changes"]))
        for each in result["scenarios"]))
    yield ""


def _switch(value: Any, label: str | None) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    return str(value).replace("apex", STAND_IN) if label == STAND_IN else str(value)


def _method(result: Result) -> Iterator[str]:
    plan, preset = result["plan"], result["plan"]["preset"]
    yield from ("## How it was measured", "")
    yield (f"{cell(preset['name'])}: {preset['batch']} sequences of "
           f"{preset['shape']['context']} tokens a step, {plan['rounds_finished']} of "
           f"{plan['rounds']} rounds, seed {plan['seed']}. A "
           "round is each scenario once, in a process of its own, and the baseline twice; the "
           "order is balanced. Each process warms up until two windows of steps agree, and then "
           f"times {plan['timing']['blocks']} blocks of {plan['timing']['block_seconds']} s or "
           "more between synchronisations. Ratios are taken within rounds; the interval of their "
           "geometric mean is from a bootstrap of rounds and of blocks within them. FAST and SLOW "
           f"need the whole interval beyond {100 * plan['margin']:.3g} % and beyond the noise of "
           "the baseline against itself; SAME needs it within the margin.")
    yield ""
    for flag, about, _ in legend({each["title"]: each["flags"] for each in result["scenarios"]}):
        yield f"- {flag}: {about.means}"
