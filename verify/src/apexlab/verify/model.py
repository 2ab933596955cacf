"""A user's own model: what of its training step was Apex's. Pure; prove/model.py looks at it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apexlab.verify import attribute, extensions
from apexlab.verify.attribute import INTERPOSER, PROFILER, Registered
from apexlab.verify.findings import finding
from apexlab.verify.process import how_it_ended
from apexlab.verify.report import Finding, ModelReport, StepKernel, Used

# Which extension a class of Apex needs, by the start of its full name; the first that fits. Other
# classes of Apex are counted, and nothing is said about the kernels that they should run.
NEEDS = (
    ("apex.normalization.", "fused_layer_norm_cuda"),
    ("apex.contrib.optimizers.fused_adam.", "fused_adam_cuda"),
    ("apex.optimizers.", "amp_C"),
    ("apex.mlp.", "mlp_cuda"),
    ("apex.fused_dense.", "fused_dense_cuda"),
)


def model_report(answer: Mapping[str, Any], registered: Registered, working: frozenset[str],
                 ) -> ModelReport:
    """The report of what prove/model.py's `examine` answered. An extension whose launches no
    instrument sees owns none of the kernels here; `model_findings` says so."""
    optimizer = answer.get("optimizer")
    kernels = tuple(_kernels(answer, registered, working))
    times = [(one.microseconds or 0.0, one.extension) for one in kernels]
    total = sum(time for time, _ in times)
    return ModelReport(
        str(answer["factory"]), str(answer["device"]), tuple(map(_used, answer["norms"])),
        None if optimizer is None else _used(optimizer), kernels,
        sum(time for time, owner in times if owner) / total if total else None)


def _used(one: Mapping[str, Any]) -> Used:
    return Used(str(one["name"]), int(one["count"]), bool(one["apex"]))


def _kernels(answer: Mapping[str, Any], registered: Registered, working: frozenset[str],
             ) -> Iterator[StepKernel]:
    """Each kernel of the step once for each owner."""
    instrument = INTERPOSER if INTERPOSER in working else PROFILER
    launched = _summed(answer, instrument, "count") if instrument in working else {}
    times = _summed(answer, PROFILER, "us") if PROFILER in working else {}
    owners = _owners(answer, registered, working)
    for name in sorted({*launched, *times}):
        # What only the profiler saw was launched where the interposer cannot look.
        count = int(launched.get(name) or _summed(answer, PROFILER, "count")[name])
        left = count
        for extension, own in owners[name].items():
            own = min(own, left)
            left -= own
            if own:
                yield StepKernel(name, own, extension, _part(times.get(name), own, count))
        if left:
            yield StepKernel(name, left, None, _part(times.get(name), left, count))


def _summed(answer: Mapping[str, Any], instrument: str, value: str) -> dict[str, float]:
    """The sum of `value` over all launches of each name."""
    sums: dict[str, float] = defaultdict(float)
    for launch in answer.get(instrument) or ():
        if launch.get(value) is not None:
            sums[str(launch["name"])] += float(launch[value])
    return dict(sums)


def _part(time: float | None, count: int, total: int) -> float | None:
    """Kernels of one name and several owners share its time by their launches."""
    return None if time is None else time * count / total


def _owners(answer: Mapping[str, Any], registered: Registered, working: frozenset[str],
            ) -> Mapping[str, Mapping[str, int]]:
    """Name → extension → launches of the extension's own kernel. Where two extensions register the
    same name and only the profiler sees, the one that the model's classes need comes first."""
    owners: dict[str, dict[str, int]] = defaultdict(dict)
    needed = _needed(answer)
    for extension in sorted(_known(registered), key=lambda one: (one not in needed, one)):
        for kernel in attribute.kernels(extension, answer, registered, working) or ():
            if kernel.in_extension:
                owners[kernel.name][extension] = kernel.count
    return owners


def _known(registered: Registered) -> set[str]:
    """The extensions that are there, with those whose kernels cannot be read."""
    return {*registered.names, *registered.paths}


def model_findings(answer: Mapping[str, Any], registered: Registered, working: frozenset[str],
                   factory: str) -> tuple[Finding, ...]:
    """What there is to say about the model. `answer` may also say why there is none: "error",
    "ended" or "hang"."""
    failure = _failure(answer)
    if failure:
        return (finding("model-broken", factory=factory, error=failure),)
    apex = [one for one in _classes(answer) if one["apex"]]
    seen = {name: attribute.kernels(name, answer, registered, working)
            for name in _known(registered)}
    ran = {name for name, kernels in seen.items()
           if any(kernel.in_extension for kernel in kernels or ())}
    blind = sorted(name for name, kernels in seen.items() if kernels is None)
    if not apex and not ran:
        if blind:
            return (_unseen(factory, blind),)
        return (finding("model-without-apex", factory=factory, what=_what(answer)),)
    return tuple(_missing(factory, _needed(answer), seen, ran))


def _missing(factory: str, needed: Mapping[str, list[str]], seen: Mapping[str, Any],
             ran: set[str]) -> Iterator[Finding]:
    """The extensions that the model's classes need and that launched nothing."""
    # cuBLAS does the work of the others, so that no kernel of theirs is to be seen.
    wanted = {name: classes for name, classes in needed.items()
              if extensions.BY_NAME[name].proof == "kernel" and name not in ran}
    blind = sorted(name for name in wanted if name in seen and seen[name] is None)
    if blind:
        yield _unseen(factory, blind)
    for name, classes in wanted.items():
        if name not in blind:
            yield finding("model-fallback", factory=factory, classes=", ".join(classes), name=name)


def _unseen(factory: str, blind: Iterable[str]) -> Finding:
    return finding("model-unseen", factory=factory, names=", ".join(blind))


def _failure(answer: Mapping[str, Any]) -> str:
    if answer.get("error"):
        error = answer["error"]
        # The child's own sentence needs no class before it.
        kind = "" if error["kinds"][0] == "FactoryError" else f"{error['kinds'][0]}: "
        return " ".join(f"{kind}{error['text']}".split()).rstrip(".")
    return f"it {how_it_ended(answer)}" if "hang" in answer or "ended" in answer else ""


def _classes(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    optimizer = answer.get("optimizer")
    return [*answer["norms"], *answer.get("others", ()), *([optimizer] if optimizer else ())]


def _needed(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    """The extensions that the model's classes of Apex need, and these classes."""
    needed: dict[str, list[str]] = {}
    for one in _classes(answer):
        base = str(one.get("base") or "")
        name = next((name for start, name in NEEDS if base.startswith(start)), None)
        if name is not None:
            needed.setdefault(name, []).append(str(one["name"]))
    return needed


def _what(answer: Mapping[str, Any]) -> str:
    """The model's norms and optimizer in words."""
    total = sum(one["count"] for one in answer["norms"])
    norms = [f"{one['count']} of {total} norms are {one['name']}" for one in answer["norms"]]
    optimizer = answer.get("optimizer")
    last = f"the optimizer is {optimizer['name']}" if optimizer else "there is no optimizer"
    return ", ".join((*(norms or ["it has no norm"]), last))
