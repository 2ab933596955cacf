"""The times of operations as tables for a terminal: a line for each case, a column for each
provider. The report has all the rest. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apexlab.bench.ops.cases import OPS
from apexlab.bench.ops.judge import mode
from apexlab.bench.ops.providers import TITLES
from apexlab.bench.report import words
from apexlab.bench.result.stats import MARGIN
from apexlab.bench.result.warn import noise_words
from apexlab.verify.render import Line

Point = Mapping[str, Any]
KERNELS, CALLS = ("cold_us", "kernels, cold"), ("call_us", "a whole call")
# Of Adam and clipping the host takes a part that is worth a table; of norms, hardly.
HOST = ("adam", "clip")
_CLOCKS = {"call": "calls", "cold": "kernels"}
_SHORT = {"forward": "fwd", "forward+backward": "fwd+bwd", "step": ""}


def tables(result: Mapping[str, Any]) -> Iterator[Line]:
    """A table for each operation and clock."""
    for op in OPS:
        points = [point for point in result["points"] if point["op"] == op]
        on_gpu = any(point["cold_us"] for point in points)
        for key, name in (KERNELS, CALLS):
            timed = [point for point in points if point[key]]
            if timed and (key == KERNELS[0] or op in HOST or not on_gpu):
                yield from _aligned(list(_rows(f"{op}: {name}", key, timed)))
    if result.get("copy_gbps"):
        yield from (Line("", line) for line in textwrap.wrap(of_copy(result["copy_gbps"]), 100))
        yield Line("", "")


def notes(result: Mapping[str, Any]) -> Iterator[str]:
    """What the figures of the tables mean, and how far chance reaches in them."""
    copy = result.get("copy_gbps")
    yield ("GB/s counts the fewest bytes that the operation has to move."
           + (f" {of_copy(copy)}" if copy else ""))
    noise = "; ".join(f"{each['op']}, {_CLOCKS[each['kind']]}, {noise_words(each['floor'])}"
                      for each in result.get("noise") or ())
    yield (f"Noise of the baselines against themselves: {noise or 'unknown'}. FAST and SLOW need "
           f"the whole interval beyond {100 * MARGIN:.3g} % and beyond this.")


def of_copy(gbps: float) -> str:
    """What the share of a copy's rate is, and why it is no limit."""
    return (f"Of copy: the fewest bytes to move over the cold kernel time, against a large copy, "
            f"{words.number(gbps, 'GB/s')} here. It is a yardstick and no limit, and can be "
            "passed: Adam in FP32 writes 12 bytes for 16 that it reads, where a copy writes as "
            "many; and what is written last may be in the cache still when a kernel ends, which is "
            "a tenth of a list of some hundred megabytes and nothing of a large copy.")


def _rows(head: str, key: str, points: Sequence[Point]) -> Iterator[tuple[str, ...]]:
    order = list(TITLES)
    titles = list(dict.fromkeys(_title(point) for point in sorted(
        points, key=lambda point: order.index(point["provider"]))))
    share = key == KERNELS[0]
    yield (head, *titles, *(["best of all, of copy"] if share else []))
    for case in dict.fromkeys(map(_case, points)):
        here = {_title(point): point for point in points if _case(point) == case}
        times = (words.microseconds(here[title][key]["median"]) if title in here else "-"
                 for title in titles)
        title, best = max(((title, point["share_of_copy"] or 0.0)
                           for title, point in here.items()), key=lambda each: each[1])
        of_best = f"{title} {words.percent(best, 0)}" if best else words.NONE
        yield (case, *times, *([of_best] if share else []))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        first, *others = (text.ljust(width) if column == 0 else text.rjust(width)
                          for column, (text, width) in enumerate(zip(row, widths, strict=True)))
        text = "  ".join((first, *others)).rstrip()
        yield Line("", text) if number else Line(text, "", "head")
    yield Line("", "")


def _case(point: Point) -> str:
    """`width 1024  autocast  fwd+bwd`"""
    direction = _SHORT.get(point["direction"], point["direction"])
    return "  ".join(filter(None, (point["case"], mode(point), direction)))


def _title(point: Point) -> str:
    return str(point["title"]).removeprefix("torch, ")
