"""What somebody who pulled an image can check: the signature, and statements about this digest."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from apexlab.build.errors import RefusedError, RegistryError
from apexlab.build.image_labels import OURS
from apexlab.build.publish import decide, evidence, provenance, sbom
from apexlab.build.publish.decide import Refusal
from apexlab.build.publish.evidence import Verified
from apexlab.build.publish.reference import Reference
from apexlab.build.publish.registry import Registry
from apexlab.build.publish.sign import Cosign, Trust
from apexlab.build.publish.subject import look
from apexlab.verify.report import LEVELS

VERIFY = f"{provenance.OURS}/verify/v1"
BENCH = f"{provenance.OURS}/bench/v1"
# What a published image always has; a benchmark is a thing on top.
REQUIRED = {"verify report": VERIFY, "SBOM": sbom.PREDICATE, "provenance": provenance.PREDICATE}


@dataclass(frozen=True)
class Checked:
    """What is known of the image now. `statements` counts what was found of each kind."""

    reference: Reference
    source: str
    reports: tuple[Verified, ...]
    statements: dict[str, int]
    level: str


def check(registry: Registry, cosign: Cosign, level: str) -> Checked:
    """Check the image that the registry's reference names. Raises RefusedError with every reason
    not to trust it."""
    reference = _pinned(registry)
    image, _ = look(registry.of(reference))
    if not cosign.signed(reference.by_digest):
        raise RefusedError(f"{reference.by_digest} has no signature of whom you trust. Do not use "
                           "it; if you trust somebody else, say whom (--key, --repository).")
    found, reports, wrong = {}, [], []
    for name, kind in {**REQUIRED, "benchmark": BENCH}.items():
        statements = [one for one in cosign.attestations(reference.by_digest, kind)
                      if image.digest in one.digests and one.kind == kind]
        found[name] = len(statements)
        if not statements and kind != BENCH:
            wrong.append(Refusal("missing", f"There is no signed {name}."))
        if kind == VERIFY:
            reports = [evidence.verified(one.predicate, f"signed verify report {number}")
                       for number, one in enumerate(statements, 1)]
    wrong += decide.consumer_refusals(image, reports, level)
    if wrong:
        raise RefusedError(f"{reference.by_digest} is signed, and yet not as it should be: "
                           f"{' '.join(one.message for one in wrong)} Do not use it.")
    source = image.labels.get(f"{OURS}.source", "unknown")
    best = max((one.level for one in reports), key=LEVELS.index)
    return Checked(reference, source, tuple(reports), found, best)


def _pinned(registry: Registry) -> Reference:
    """The reference with the digest that its tag has now. A digest that is given wins."""
    reference = registry.reference
    if reference.digest:
        return reference
    manifest = registry.manifest(reference.tag or "latest")
    if manifest is None:
        raise RegistryError(f"{reference.name} has no tag {reference.tag or 'latest'}. Is it "
                            "written as in the list of images?")
    return reference.at(manifest.digest)


def commands(reference: Reference, trust: Trust) -> list[str]:
    """The same checks with cosign alone, to copy."""
    image, options = reference.by_digest, shlex.join(trust.options)
    kinds = " ".join(shlex.quote(kind) for kind in REQUIRED.values())
    return [f"cosign verify {options} {image}",
            f"for type in {kinds}; do cosign verify-attestation {options} --type $type {image}; "
            "done"]
