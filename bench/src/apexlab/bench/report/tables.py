"""The result as a table in long format: a row for each point, for whoever draws their own. Pure."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

HEAD = ("scenario", "title", "label", "metric", "round", "block", "value", "unit")
Cells = tuple[Any, ...]
# Metric, the way to it, unit: of a scenario as a whole.
_FIGURES = (
    *((f"time_{key}", ("time", key), "s") for key in
      ("median", "iqr", "mean", "deviation", "least", "most")),
    ("tokens_per_second", ("tokens_per_second",), "1/s"),
    ("samples_per_second", ("samples_per_second",), "1/s"),
    *((f"memory_{key}", ("memory", key), "B") for key in
      ("allocated", "reserved", "active", "process")),
    ("allocator_retries", ("memory", "retries"), "1"),
    ("optimizer_peak", ("optimizer_peak",), "B"),
    ("optimizer_state", ("optimizer_state", "bytes"), "B"),
    ("joules_per_step", ("energy", "joules_per_step"), "J"),
    ("joules_per_token", ("energy", "joules_per_token"), "J"),
    ("tokens_per_joule", ("energy", "tokens_per_joule"), "1/J"),
    ("mfu", ("mfu",), "1"),
    ("first_step", ("first_step_seconds",), "s"),
    ("warmup_steps", ("warmup_steps",), "1"),
    *((f"phase_{key}", ("phases", key), "s") for key in
      ("forward", "backward", "optimizer", "scaler")),
    ("gpu_busy", ("gpu_busy",), "1"), ("apex_share", ("apex_share",), "1"),
    ("kernels_per_step", ("kernels_per_step",), "1"), ("syncs", ("syncs",), "1"),
    ("data_wait", ("data_wait",), "s"),
    *((f"{kind}_{key}", (kind, key), "1") for kind in
      ("speedup", "speedup_over_tf32", "step") for key in
      ("ratio", "low", "high")),
    *((f"parity_{key}", ("parity", key), "1") for key in
      ("gap_early", "gap_late", "spread", "gradient_error", "update_error")),
    ("per_gpu_tokens_per_second", ("gpus", "per_gpu_tokens_per_second"), "1/s"),
    ("scaling_efficiency", ("gpus", "efficiency"), "1"),
)
_POINT = (*(f"{clock}_us" for clock in ("cold", "hot", "host", "call")),)


def csv_text(result: Mapping[str, Any]) -> str:
    """result.csv, with its head. What was not measured has no row."""
    whole = StringIO()
    table = csv.writer(whole, lineterminator="\n")
    table.writerow(HEAD)
    table.writerows(_train(result) if result["kind"] == "train" else _ops(result))
    return whole.getvalue()


def _train(result: Mapping[str, Any]) -> Iterator[Cells]:
    for each in result["scenarios"]:
        key = (each["name"], each["title"], each["label"] or "")
        for metric, way, unit in _FIGURES:
            value: Any = each
            for name in way:
                value = (value or {}).get(name)
            if value is not None:
                yield (*key, metric, "", "", value, unit)
        for found in (each["time"] or {}).get("rounds", ()):
            for number, seconds in enumerate(found["blocks"]):
                yield (*key, "time", found["round"], number, seconds, "s")
        for number, ratio in enumerate((each["speedup"] or {}).get("rounds", ())):
            yield (*key, "speedup", number, "", ratio, "1")
        for number, loss in enumerate(each["losses"] or ()):
            if loss is not None:
                yield (*key, "loss", "", number, loss, "nat")


def _ops(result: Mapping[str, Any]) -> Iterator[Cells]:
    if result.get("copy_gbps") is not None:
        yield ("copy", "copy", "", "gbps", "", "", result["copy_gbps"], "GB/s")
    for each in result["points"]:
        cast = "autocast" if each["autocast"] else "plain"
        name = "/".join((each["op"], each["case"], each["dtype"], cast, each["direction"],
                         each["provider"]))
        key = (name, each.get("title") or name, each["label"] or "")
        for clock in _POINT:
            for part, unit in (("median", "us"), ("iqr", "us"), ("count", "1")):
                if each[clock] and each[clock].get(part) is not None:
                    yield (*key, f"{clock[:-3]}_{part}", "", "", each[clock][part], unit)
        for metric, unit in (("least_bytes", "B"), ("gbps", "GB/s"), ("share_of_copy", "1")):
            if each[metric] is not None:
                yield (*key, metric, "", "", each[metric], unit)
