"""What a scenario may be called: the word Apex stands only where its kernels were proven. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from apexlab.bench.planning.scenario import Scenario

APEX, STAND_IN = "Apex", "stand-in"
PRECISION_WORDS = {"fp32": "FP32", "tf32": "TF32", "amp-bf16": "torch.amp BF16",
                   "amp-fp16": "torch.amp FP16", "fp16-weights": "FP16 weights"}
OPTIMIZER_WORDS = {"torch-loop": "torch AdamW (for-loop)", "torch-foreach": "torch AdamW (foreach)",
                   "torch-fused": "torch AdamW (fused)", "apex": "FusedAdam",
                   "apex-capturable": "FusedAdam (capturable)",
                   "apex-master": "FusedAdam (master weights)"}
NORM_WORDS = {"torch": "torch norm", "torch-lowp": "torch norm in 16 bits", "apex": "fused norm"}
# The first of these that any process had is what is said of all.
_WORST = ("not-proven", "blind", "proven", "not-needed")
_UNSEEN: dict[str, Any] = {"verdict": "blind", "parts": [],
                           "why": "No process of it was looked at."}


def proof_of(scenario: Scenario, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The proof of all its processes: as good as the worst of them."""
    proofs = [row.get("proof") or _UNSEEN for row in rows]
    if not scenario.apex:
        why = next((proof["why"] for proof in proofs if proof["why"]), "")
        return {"verdict": "not-needed", "why": why, "parts": []}
    return dict(min(proofs or [_UNSEEN], key=lambda proof: _WORST.index(proof["verdict"])))


def label_of(scenario: Scenario, proof: Mapping[str, Any], apex: Mapping[str, Any]) -> str | None:
    """`Apex`, `stand-in`, or None for what is neither or was not proven."""
    proven = bool(scenario.apex) and proof["verdict"] == "proven"
    return apex["label"] if proven else None


def title_of(scenario: Scenario, proof: Mapping[str, Any], label: str | None) -> str:
    """What may be shown: the name; the name for what stands in for Apex; or, where nothing was
    proven, what ran, without the claim that it was Apex's."""
    if not scenario.apex or label == APEX:
        return scenario.name
    if label == STAND_IN:
        return scenario.name.replace("apex", STAND_IN)
    proven = {part["part"] for part in proof["parts"] if part.get("kernels")}
    unknown = "not proven" if proof["verdict"] == "blind" else "not Apex's"
    settings = scenario.settings
    parts = [words[getattr(settings, part)] if part in proven or part not in scenario.apex
             else f"{part} {unknown}{' (capturable)' * ('capturable' in getattr(settings, part))}"
             for part, words in (("norm", NORM_WORDS), ("optimizer", OPTIMIZER_WORDS))]
    extra = [word for word, on in (("compiled", settings.compile), ("CUDA graph", settings.graph))
             if on]
    return ", ".join([PRECISION_WORDS[settings.precision], *parts, *extra])


def relabelled(text: str, label: str | None) -> str:
    """A text about Apex, said of the stand-in where that is what is here."""
    if label != STAND_IN:
        return text
    text = re.sub(r"Apex('s)?(?= FusedAdam)|Apex's", "the stand-in's", text)
    text = re.sub(r"\bApex\b", "the stand-in", text)
    text = re.sub(r"(?<!the stand-in's )(?<!and )FusedAdam", "the stand-in's FusedAdam", text)
    return f"T{text[1:]}" if text.startswith("the stand-in") else text


def point_name(point: Mapping[str, Any]) -> str:
    """`layernorm, width 1024, float32 under autocast, forward`."""
    cast = " under autocast" if point["autocast"] else ""
    return f"{point['op']}, {point['case']}, {point['dtype']}{cast}, {point['direction']}"


def provider_name(point: Mapping[str, Any]) -> str:
    """What the provider may be called: never Apex for what stands in for it, or was not proven."""
    return str(point.get("title") or point["provider"])
