"""A comparison in Markdown, fit for a pull request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.markdown_table import cell, table
from apexlab.bench.result.comparison import Compared, Finding
from apexlab.bench.result.warn import noise_words

_UNITS = {"s": words.seconds, "B": words.gib, "us": words.microseconds}
_SHOWN = {"SLOW": "**SLOW**", "MORE": "**MORE**", "LOST": "**LOST**"}


def markdown(found: Compared) -> str:
    """The verdict first, then a table of what is compared, then how far it can be trusted."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Compared) -> Iterator[str]:
    yield f"### apexlab bench: {headline(found)}"
    yield ""
    for note in found.unlike:
        yield f"> Compared although unlike: {cell(note)}."
    if found.unlike:
        yield ""
    yield from table(("", "BASE", "NEW"), _sides(found.base, found.new))
    yield ""
    yield from table(("what", "metric", "BASE", "NEW", "change", "95 % interval", "verdict"),
                     map(_row, found.findings))
    yield ""
    yield _trust(found)


def headline(found: Compared) -> str:
    """`2 of 21 figures became worse: ...`, or what else there is to say in a line."""
    bad, open_ = found.regressions, [f for f in found.findings if f.verdict == "UNDECIDED"]
    better = [f for f in found.findings if f.verdict in ("FAST", "LESS", "GAINED")]
    parts = [f"{len(some)} {word}" for some, word in (
        (better, "better"), (open_, "undecided")) if some]
    rest = f"; {', '.join(parts)}" if parts else ""
    count = words.plural(len(found.findings), "figure")
    if not found.findings:
        return "nothing to compare: BASE has no figure"
    if found.blind and not bad:
        return f"no speed could be decided, so this is no sign that nothing became worse{rest}"
    if not bad:
        return f"none of {count} became worse{rest}"
    names = ", ".join(dict.fromkeys(cell(each.name) for each in bad[:3]))
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return f"{len(bad)} of {count} became worse ({names}{more}){rest}"


def gate(found: Compared) -> str:
    """What a gate that lets this pass has to say of itself, or ""."""
    if not found.blind or found.regressions:
        return ""
    return ("The gate saw nothing that it could decide: every speed is UNDECIDED, so that it "
            "passes says nothing. Measure more rounds, on a machine that does nothing else.")


def _sides(base: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    here, there = base["environment"], new["environment"]
    for what, key in (("device", "device"), ("driver", "driver"), ("torch", "torch"),
                      ("CUDA", "cuda"), ("Python", "python")):
        yield what, str(here.get(key) or "none"), str(there.get(key) or "none")
    yield "Apex", *(words.apex(side.get("apex") or {}) for side in (here, there))
    yield "measured", str(base.get("created")), str(new.get("created"))
    if base["kind"] == "train":
        yield "rounds", *(str(side["plan"]["rounds_finished"]) for side in (base, new))
        yield "noise", *(noise_words(side["noise"]["floor"]) for side in (base, new))


def _row(each: Finding) -> Sequence[str]:
    show = _UNITS.get(each.unit, words.number)
    if each.base is None:
        return each.name, each.metric, "", "", each.why, "", _SHOWN.get(each.verdict, each.verdict)
    span = "" if each.low is None or each.high is None else \
        f"{_signed(each.low)} to {_signed(each.high)}"
    figure = _signed(each.ratio)
    if each.unit == "B" and each.new is not None:
        figure = f"{100 * (each.new / each.base - 1):+.1f} %"
    return (each.name, each.metric, show(each.base), show(each.new), figure, span,
            _SHOWN.get(each.verdict, each.verdict))


def _signed(ratio: float | None) -> str:
    """Of a speed; memory has its own sign."""
    return "" if ratio is None else words.change(ratio)


def _trust(found: Compared) -> str:
    margin = f"The margin is {100 * found.margin:.3g} % of the speed, and 1 % of the memory. "
    if found.base["kind"] == "ops":
        return margin + "A difference within the spread of both is undecided."
    if found.paired:
        return margin + "The two alternated round by round, so that a drift of the machine met " \
            "both alike; the intervals are of the ratios of their rounds."
    return margin + ("Change is of the speed: above 0 NEW is faster. The two runs share no rounds, "
                     "so a drift of the machine between them is not told from a change: `apexlab "
                     "bench ab` alternates two images, and shows which it was. UNDECIDED is "
                     "neither a change nor its absence; more rounds decide it.")
