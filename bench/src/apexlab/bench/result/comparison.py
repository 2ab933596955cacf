"""Two results against each other: what became faster, slower, larger, or was lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from apexlab.bench.result import stats, unpaired

MARGIN, MEMORY_MARGIN = 0.02, 0.01
SCHEMA = "apexlab.bench-comparison/1"
Result = Mapping[str, Any]
Verdict = Literal["FAST", "SLOW", "SAME", "UNDECIDED", "MORE", "LESS", "LOST", "GAINED"]
REGRESSIONS: frozenset[Verdict] = frozenset({"SLOW", "MORE", "LOST"})


@dataclass(frozen=True)
class Finding:
    """One scenario or operation, and one metric of it: `time`, `memory`, or what it says of the
    measurement itself (`state`, `proof`, `parity`). `base` and `new` are in `unit`; `ratio` is
    base over new, so that above 1 the new one is better; `why`: of what has no figures."""

    name: str
    metric: str
    verdict: Verdict
    base: float | None = None
    new: float | None = None
    unit: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""

    @property
    def regression(self) -> bool:
        return self.verdict in REGRESSIONS


@dataclass(frozen=True)
class Compared:
    """`unlike`: in what the two are not alike, when that was forced; `paired`: whether their
    rounds alternated."""

    base: Result
    new: Result
    findings: tuple[Finding, ...]
    unlike: tuple[str, ...]
    margin: float
    paired: bool

    @property
    def regressions(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.regression)

    @property
    def blind(self) -> bool:
        """Whether no speed could be decided, so that a gate lets anything pass."""
        speeds = [each for each in self.findings if each.ratio is not None and each.unit != "B"]
        return bool(speeds) and all(each.verdict == "UNDECIDED" for each in speeds)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        keys = ("created", "version", "configuration_hash", "environment")
        return {"schema": SCHEMA, "kind": self.base["kind"], "margin": self.margin,
                "memory_margin": MEMORY_MARGIN, "paired": self.paired, "unlike": list(self.unlike),
                "base": {key: self.base.get(key) for key in keys},
                "new": {key: self.new.get(key) for key in keys},
                "regressions": len(self.regressions),
                "findings": [{**asdict(each), "regression": each.regression}
                             for each in self.findings]}


def compare(base: Result, new: Result, margin: float = MARGIN, paired: bool = False) -> Compared:
    """Two results of the same kind. `paired`: the n-th rounds of both were run one after the other,
    as `bench ab` does it, so that they are compared in pairs."""
    found: list[Finding] = []
    if base["kind"] == "ops":
        from apexlab.bench.result.comparison_ops import points

        found += points(base, new, margin)
    else:
        entries = {each["name"]: each for each in new["scenarios"]}
        for entry in base["scenarios"]:
            found += scenario(entry, entries.get(entry["name"]), base, new, margin, paired)
    return Compared(base, new, tuple(found), tuple(unlike(base, new)), margin, paired)


def unlike(base: Result, new: Result) -> list[str]:
    """In what two results are not alike, so that their ratio would be of something else; the
    versions of torch and of Apex are what a comparison is made for."""
    here, there = base["environment"], new["environment"]
    found = [f"{what}: {one} and {other}" for what, one, other in (
        ("device", here.get("device"), there.get("device")),
        ("driver", here.get("driver"), there.get("driver")),
        ("what is installed as Apex", *((side.get("apex") or {}).get("label") or "none"
                                        for side in (here, there)))) if one != other]
    if base["configuration_hash"] != new["configuration_hash"]:
        found.insert(0, f"configuration: {', '.join(_configured(base, new))}")
    for name, result in (("BASE", base), ("NEW", new)):
        if result["state"] == "partial":
            found.append(f"{name} was interrupted, and holds only a part of its run")
    return found


def _configured(base: Result, new: Result) -> list[str]:
    """The settings that differ, the number of GPUs among them."""
    one, other = base.get("configuration") or {}, new.get("configuration") or {}
    return [_differing(key, one.get(key), other.get(key)) for key in sorted({*one, *other})
            if one.get(key) != other.get(key)] or ["its hash"]


def _differing(key: str, one: Any, other: Any) -> str:
    """A setting with both values, or a table of settings with the keys in which they differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        return f"{key} ({', '.join(keys[:3])}{more})"
    return f"{key} {str(one)[:12]} and {str(other)[:12]}"


def scenario(base: Result, new: Result | None, of_base: Result, of_new: Result, margin: float,
             paired: bool) -> list[Finding]:
    """What is said of one scenario; nothing of one that BASE had no times of."""
    name = base["title"]
    if base["time"] is None:
        return [Finding(name, "state", "GAINED", why=f"BASE had none: {base['why']}")] \
            if new and new["time"] else []
    if new is None or new["time"] is None:
        why = f"{new['state'].replace('-', ' ')}: {new['why']}" if new else "it is not in NEW"
        return [Finding(name, "state", "LOST", why=why)]
    found = [_time(name, base, new, of_base, of_new, margin, paired)]
    found += _memory(name, base, new)
    if base["label"] and not new["label"]:
        found.append(Finding(name, "proof", "LOST", why=new["proof"]["why"]
                             or "Its kernels were proven in BASE, and are not in NEW."))
    if base["parity"]["verdict"] == "pass" and new["parity"]["verdict"] == "fail":
        found.append(Finding(name, "parity", "LOST", why=new["parity"]["why"]))
    return found


def _time(name: str, base: Result, new: Result, of_base: Result, of_new: Result, margin: float,
          paired: bool) -> Finding:
    floor = max(result["noise"]["floor"] or 0.0 for result in (of_base, of_new))
    sides = [{each["round"]: each["blocks"] for each in entry["time"]["rounds"]}
             for entry in (base, new)]
    found = stats.compare(*stats.shared_rounds(*sides), 0, margin, floor) if paired else \
        unpaired.compare(list(sides[0].values()), list(sides[1].values()), 0, margin, floor)
    span = found.interval
    return Finding(name, "time", found.verdict, base["time"]["median"], new["time"]["median"], "s",
                   found.ratio, *((span.low, span.high) if span else (None, None)))


def _memory(name: str, base: Result, new: Result) -> list[Finding]:
    """Of the peak that torch allocated on a GPU. What it reserved, and a process's memory on a
    CPU, vary by themselves."""
    one, other = ((entry["memory"] or {}).get("allocated") for entry in (base, new))
    if not one or not other:
        return []
    verdict: Verdict = "MORE" if other > one * (1 + MEMORY_MARGIN) else \
        "LESS" if one > other * (1 + MEMORY_MARGIN) else "SAME"
    return [Finding(name, "peak memory", verdict, one, other, "B", one / other)]
