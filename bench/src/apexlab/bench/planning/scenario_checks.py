"""What must hold of the scenarios and ladders: a name that promises another setting than its row
has, or a comparison that changes more than it says, would be believed in every report."""

from __future__ import annotations

from apexlab.bench.model.settings import Settings
from apexlab.bench.planning.scenario import Ladder, Scenario, differing

PRECISION_WORDS = {"fp32": {"fp32"}, "tf32": {"tf32"}, "amp-bf16": {"amp", "bf16"},
                   "amp-fp16": {"amp", "fp16"}, "fp16-weights": {"fp16", "weights"}}
OTHER_WORDS = {"torch", "apex", "fused", "adam", "norm", "lowp", "capturable", "compile", "graph"}


def check(rows: tuple[Scenario, ...], ladders: tuple[Ladder, ...]) -> tuple[str, ...]:
    """What is wrong with the tables, as sentences; nothing when they are sound."""
    known = {row.name: row for row in rows}
    found = [f"Scenario {row.name} is there twice." for row in rows if known[row.name] is not row]
    same: dict[Settings, str] = {}
    for row in known.values():
        found += [f"Scenario {row.name}: {why}" for why in _contradictions(row)]
        if (twin := same.setdefault(row.settings, row.name)) != row.name:
            found.append(f"Scenarios {twin} and {row.name} have the same settings.")
    for ladder in ladders:
        found += [f"Ladder {ladder.name}: {why}" for why in _unclear(ladder, known)]
    used = {step.scenario for ladder in ladders for step in ladder.steps}
    found += [f"Scenario {name} is in no ladder." for name in known if name not in used]
    return tuple(found)


def _contradictions(row: Scenario) -> list[str]:
    settings, words = row.settings, set(row.name.split("-"))
    says = words - OTHER_WORDS
    rules = (
        # the one name that leaves its 16-bit type out, as it is known outside
        (says == PRECISION_WORDS[settings.precision]
         or (row.name == "torch-lowp-norm-amp" and settings.precision == "amp-bf16"),
         f"the name does not say its precision, {settings.precision}."),
        (not (settings.compile and settings.norm == "apex"),
         "compiled, Apex's norm modules run torch's code, so the name would not be true."),
        (settings.clip is None, "no scenario clips."),
        (settings.adamw == Settings().adamw, "all scenarios have the same hyperparameters."),
        (("apex" in words) == bool(row.apex), "the name and the parts of Apex disagree."),
        (("fused" in words or "lowp" in words) == (settings.optimizer == "torch-fused"),
         "the name and torch's fused AdamW disagree."),
        ("norm" not in words or settings.norm != "torch", "the name says another norm."),
        ("adam" not in words or row.apex == ("optimizer",), "the name says FusedAdam alone."),
        (("capturable" in words) == (settings.optimizer == "apex-capturable"),
         "the name and the capturable optimizer disagree."),
        (("lowp" in words) == (settings.norm == "torch-lowp"), "the name and the norm disagree."),
        (("compile" in words) == settings.compile, "the name and `compile` disagree."),
        (("graph" in words) == settings.graph, "the name and `graph` disagree."),
    )
    return [why for holds, why in rules if not holds]


def _unclear(ladder: Ladder, known: dict[str, Scenario]) -> list[str]:
    names = [step.scenario for step in ladder.steps]
    found = [f"{name} is no scenario." for name in names if name not in known]
    found += [f"{name} is there twice." for name in sorted(set(names)) if names.count(name) > 1]
    for number, step in enumerate(ladder.steps):
        if (step.against is None) != (number == 0):
            found.append(f"{step.scenario}: the first step, and no other, is the baseline.")
        elif step.against is not None and step.against not in names:
            found.append(f"{step.scenario} is read against {step.against}, which is not in it.")
        elif step.against in known and step.scenario in known:
            differ = differing(known[step.scenario], known[step.against])
            if differ != step.changes:
                found.append(f"{step.scenario} against {step.against} changes "
                             f"{', '.join(differ)}, not {', '.join(step.changes)}.")
    return found
