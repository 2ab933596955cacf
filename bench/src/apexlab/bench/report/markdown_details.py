"""What really ran in each scenario, for whoever doubts a figure: in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.markdown_table import name_of, table

Result = Mapping[str, Any]
_KERNELS, _LONGEST = 5, 90  # kernels of a scenario; characters of a kernel's name


def details(timed: Sequence[Result]) -> Iterator[str]:
    """Dtypes, attention, host syncs and warnings; the longest kernels; the GPU's state."""
    yield from ("## What really ran", "")
    yield from table(("scenario", "norm: input, weight, output", "optimizer state", "attention",
                      "host syncs a step", "torch warned"), map(_ran, timed))
    yield ""
    if any(each["top_kernels"] for each in timed):
        yield from ("## The longest kernels of a step", "")
        yield from table(("scenario", "kernel", "times", "µs", "share", "of"), (
            _kernel(each, kernel) for each in timed for kernel in each["top_kernels"][:_KERNELS]))
        yield ""
    if any(each["telemetry"] for each in timed):
        yield from ("## The GPU while it was measured", "")
        yield from table(("scenario", "clock, MHz", "memory clock, MHz", "power, W",
                          "temperature, °C", "slowed by"), (
            _gpu(each) for each in timed if each["telemetry"]))
        yield ""


def _ran(each: Result) -> Sequence[str]:
    norm, state = each["norm_dtypes"] or {}, each["optimizer_state"] or {}
    dtypes = sorted({str(dtype) for name, dtype in (state.get("dtypes") or {}).items()
                     if name != "step"})
    held = f"{', '.join(dtypes)}, {words.gib(state.get('bytes'))}" if dtypes else words.NONE
    return (name_of(each), ", ".join(str(norm.get(key)) for key in ("input", "weight", "output"))
            if norm else words.NONE, held, ", ".join(each["attention"] or ()) or words.NONE,
            words.number(each["syncs"]), "; ".join(each["warnings"] or ()))


def _kernel(each: Result, kernel: Result) -> Sequence[str]:
    name = str(kernel["name"])
    return (name_of(each), name if len(name) <= _LONGEST else f"{name[:_LONGEST - 3]}...",
            words.number(kernel["count"]), words.number(kernel["us"]),
            words.percent(kernel["share"]), str(kernel["owner"] or ""))


def _gpu(each: Result) -> Sequence[str]:
    found = each["telemetry"]
    return (name_of(each), *(_range(found[key]) for key in (
        "sm_clock", "memory_clock", "power_watts", "temperature")), ", ".join(found["throttle"]))


def _range(found: Result | None) -> str:
    """The median, and from where to where."""
    if not found:
        return words.NONE
    return f"{found['median']:.0f} ({found['min']:.0f} to {found['max']:.0f})"
