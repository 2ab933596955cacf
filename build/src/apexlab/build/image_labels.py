"""The labels of an image: what the plan promises, and whether the record in the image agrees.

An image that was tagged for torch 2.1 and held 2.0 has happened elsewhere; so after a build the
labels are held against the record, which was written by what really ran.
"""

from __future__ import annotations

from collections.abc import Mapping

from apexlab.build.plan import Plan
from apexlab.build.source import Source
from apexlab.verify.record import IMAGE_PATH, Record

OCI = "org.opencontainers.image"
OURS = "dev.apexlab"


def make_labels(
    plan: Plan, source: Source | None, images: Mapping[str, str], digests: Mapping[str, str],
    revision: str,
) -> dict[str, str]:  # fmt: skip
    """The labels for `plan`, compiled from `source`, or from the plan's own commit without one.

    There is no licence label: the image holds NVIDIA's base and PyTorch, each under its own terms.
    """
    base = images["base"]
    name = "Apex" if source is None or source.name == "apex" else source.name
    labels = {
        f"{OCI}.title": "apexlab",
        f"{OCI}.description":
            f"PyTorch {plan.torch} for CUDA {plan.cuda} with {name} compiled from source",
        f"{OCI}.version": plan.slug,
        f"{OCI}.revision": revision,
        f"{OCI}.base.name": base,
        f"{OCI}.base.digest": digests.get(base, ""),
        f"{OURS}.torch": plan.torch,
        f"{OURS}.cuda": plan.cuda,
        f"{OURS}.source": "apex" if source is None else source.name,
        f"{OURS}.apex": plan.ref if source is None else source.identity,
        f"{OURS}.archs": plan.arch_list,
        f"{OURS}.profile": plan.profile,
        f"{OURS}.evidence": plan.evidence,
        f"{OURS}.record": str(IMAGE_PATH),
    }
    return {key: value for key, value in labels.items() if value}


def from_record(record: Record) -> dict[str, str]:
    """Those labels that a record can vouch for, as it would have them."""
    return {
        f"{OURS}.torch": str(record.torch.get("version", "")).partition("+")[0],
        f"{OURS}.cuda": str(record.torch.get("cuda", "")),
        f"{OURS}.source": record.source,
        f"{OURS}.apex": str(record.apex.get("commit") or record.apex.get("tree") or ""),
        f"{OURS}.archs": ";".join(record.archs),
        f"{OURS}.profile": record.profile,
    }


def disagreements(labels: Mapping[str, str], record: Record) -> list[str]:
    """Each label that says something else than the record: `torch: label 2.6.0, record 2.5.1`."""
    return [
        f"{key.removeprefix(OURS + '.')}: label {labels.get(key, 'absent')}, record {value}"
        for key, value in from_record(record).items()
        if labels.get(key) != value
    ]

