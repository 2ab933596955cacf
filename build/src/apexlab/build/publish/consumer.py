"""What somebody who pulled an image can check: the signature, and statements about this digest."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from apexlab.build.errors import RefusedError, RegistryError
from apexlab.build.image_labels import OURS
from apexlab.build.publish import decide, evidence, provenance, sbom
from apexlab.build.publish.decide import Refusal
from apexlab.build.publish.evidence import Verified
from apexlab.build.publish.reference import Reference
from apexlab.build.publish.registry import Registry
from apexlab.build.publish.sign import Attestation, Cosign, Trust, identity_of
from apexlab.build.publish.subject import Image, look
from apexlab.verify.errors import UsageError
from apexlab.verify.report import LEVELS

VERIFY = f"{provenance.URN}:verify:1"
BENCH = f"{provenance.URN}:bench:1"
# What a published image always has; a benchmark is a thing on top.
REQUIRED = {"verify report": VERIFY, "SBOM": sbom.PREDICATE, "provenance": provenance.PREDICATE}
KINDS = {**REQUIRED, "benchmark": BENCH}


@dataclass(frozen=True)
class Checked:
    """What is known of the image now. `statements` are the signed ones about it, of each kind."""

    reference: Reference
    source: str
    reports: tuple[Verified, ...]
    statements: Mapping[str, tuple[Attestation, ...]]
    level: str

    @property
    def built(self) -> str:
        """What it holds, as all of its reports say."""
        record = self.reports[0].build
        assert record is not None  # noqa: S101 - refused before
        return (f"{record.short_source} · torch {record.torch.get('version')} · "
                f"CUDA {record.torch.get('cuda')}")


def trusted(key: Path | None, repository: str | None, identity: str | None, issuer: str) -> Trust:
    """Whom somebody who asks trusts, by just one of the ways to say it. Raises UsageError."""
    if sum(bool(one) for one in (key, repository, identity)) != 1:
        raise UsageError("Say whom you trust with one of --key FILE, --repository OWNER/NAME and "
                         "--identity REGEXP: anybody can sign.")
    return Trust(key, identity or (identity_of(repository) if repository else ""), issuer)


def check(registry: Registry, cosign: Cosign, level: str) -> Checked:
    """Check the image that the registry's reference names. Raises RefusedError with every reason
    not to trust it."""
    reference = _pinned(registry)
    image, _ = look(registry.of(reference))
    if not cosign.signed(reference.by_digest):
        raise RefusedError(f"{reference.by_digest} has no signature of whom you trust. Do not use "
                           "it; if you trust somebody else, say whom (--key, --repository).")
    found: dict[str, tuple[Attestation, ...]] = {}
    reports, wrong = [], []
    for name, kind in KINDS.items():
        statements = tuple(one for one in cosign.attestations(reference.by_digest, kind)
                           if image.digest in one.digests and one.kind == kind)
        found[name] = statements
        if not statements and kind != BENCH:
            wrong.append(Refusal("missing", f"There is no signed {name}."))
        if kind == VERIFY:
            reports = [evidence.verified(one.predicate, f"signed verify report {number}")
                       for number, one in enumerate(statements, 1)]
    wrong += decide.consumer_refusals(image, reports, level)
    wrong += _contradictions(image, reports, found)
    if wrong:
        raise RefusedError(f"{reference.by_digest} is signed, and yet not as it should be: "
                           f"{' '.join(one.message for one in wrong)} Do not use it.")
    source = image.labels.get(f"{OURS}.source", "unknown")
    best = max((one.level for one in reports), key=LEVELS.index)
    return Checked(reference, source, tuple(reports), found, best)


def _contradictions(image: Image, reports: Iterable[Verified],
                    found: Mapping[str, tuple[Attestation, ...]]) -> Iterator[Refusal]:
    """The other statements are about this image, and about the build that was judged."""
    for one in found["SBOM"]:
        if sbom.digest_of(one.predicate) != image.digest:
            yield Refusal("other-sbom", "A signed SBOM is that of another image.")
    for one in found["provenance"]:
        for build in {report.record: report.build for report in reports}.values():
            if build and (said := provenance.disagreements(one.predicate, build)):
                yield Refusal("other-provenance", "A signed provenance does not agree with the "
                              f"build record in the report ({'; '.join(said)}).")


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
