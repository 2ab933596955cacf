"""Gives a judged image its attestations, its signature, and then its tags, in this order.

Each step looks first at what is there, so that a second run does only what a first one left. Until
the last statement is attached and signed no tag moves: what has a tag is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apexlab.build.errors import RefusedError, RegistryError
from apexlab.build.image_labels import OCI, OURS
from apexlab.build.publish import subject as subjects
from apexlab.build.publish.registry import AGAIN, Registry
from apexlab.build.publish.sign import Cosign
from apexlab.build.publish.subject import Subject
from apexlab.build.publish.tags import Holder, Tag

ROUNDS = 3  # of attaching: two at once may write over each other's statements


@dataclass(frozen=True)
class Statement:
    """One attestation to attach: its name for people, its type, what it says."""

    name: str
    kind: str
    predicate: Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One thing that publishing does; `there`: it was done before. `act` is the words for it."""

    act: str
    there: bool


class Promotion:
    """The steps for one image. `show` is given each step as it is done."""

    def __init__(self, registry: Registry, cosign: Cosign, subject: Subject,
                 statements: Iterable[Statement], tags: Iterable[Tag]) -> None:
        self.registry, self.cosign, self.subject = registry, cosign, subject
        self.statements, self.tags = tuple(statements), tuple(tags)
        self.image = subject.image.reference.by_digest

    def holders(self) -> dict[str, Holder]:
        """Who has the tags now, for those that somebody has."""
        found = {tag.name: self._holder(tag.name) for tag in self.tags}
        return {name: holder for name, holder in found.items() if holder is not None}

    def plan(self, holders: Mapping[str, Holder]) -> list[Step]:
        """What there is to do; nothing is changed."""
        missing = self._missing()
        steps = [Step(f"attest {one.name}", one not in missing) for one in self.statements]
        steps.append(Step("sign", self.cosign.signed(self.image)))
        for tag in self.tags:
            holder = holders.get(tag.name)
            before = f" (now {holder.digest})" if holder and not self._ours(holder) else ""
            steps.append(Step(f"tag {tag.name}{before}", holder is not None and self._ours(holder)))
        return steps

    def run(self, holders: Mapping[str, Holder], level: str, show: Callable[[Step], None]) -> None:
        """Do all that is not done. `holders` is what was judged: a tag that somebody moves in
        between is left alone, with RefusedError."""
        self._attest(show)
        signed = self.cosign.signed(self.image)
        if not signed:
            self.cosign.sign(self.image, self._words(level))
            if not self.cosign.signed(self.image):
                raise RegistryError(f"The signature of {self.image} is not there after signing; "
                                    f"somebody else signs it at the same time. {AGAIN}")
        show(Step("sign", signed))
        for tag in self.tags:
            show(Step(f"tag {tag.name}", self._tag(tag.name, holders.get(tag.name))))

    def _attest(self, show: Callable[[Step], None]) -> None:
        first = self._missing()
        missing = first
        for _ in range(ROUNDS):
            for one in missing:
                self.cosign.attest(self.image, one.kind, one.predicate)
            if not missing or not (missing := self._missing()):
                break
        if missing:
            names = ", ".join(one.name for one in missing)
            raise RegistryError(f"These statements are not there after attaching them: {names}. "
                                f"Does somebody else publish {self.image} just now? {AGAIN}")
        for one in self.statements:
            show(Step(f"attest {one.name}", one not in first))

    def _missing(self) -> list[Statement]:
        """The statements that are not attached, word for word and about this digest."""
        there = {kind: [one.predicate for one in self.cosign.attestations(self.image, kind)
                        if self.subject.image.digest in one.digests]
                 for kind in {one.kind for one in self.statements}}
        return [one for one in self.statements if one.predicate not in there[one.kind]]

    def _tag(self, name: str, judged: Holder | None) -> bool:
        """Give one tag; True where this image had it already. Registries have no "only if", so it
        is looked at just before and just after."""
        now = self.registry.manifest(name)
        ours = self.subject.image.digest
        if now is not None and now.digest == ours:
            return True
        if (now.digest if now else None) != (judged.digest if judged else None):
            raise RefusedError(self._moved(name, now.digest if now else "nothing"))
        self.registry.put(name, self.subject.image.manifest)
        after = self.registry.manifest(name)
        if after is None or after.digest != ours:
            raise RefusedError(self._moved(name, after.digest if after else "nothing"))
        return False

    def _moved(self, name: str, now: str) -> str:
        return (f"The tag {self.subject.image.reference.tagged(name)} was moved by somebody else "
                f"while this ran (it is {now} now), and is left as it is. Find out who publishes "
                "there; running the same command again judges anew.")

    def _ours(self, holder: Holder) -> bool:
        return holder.digest == self.subject.image.digest

    def _holder(self, tag: str) -> Holder | None:
        manifest = self.registry.manifest(tag)
        if manifest is None:
            return None
        if manifest.digest == self.subject.image.digest:
            return Holder(manifest.digest, self.subject.image.created, True)
        other = self.subject.image.reference.at(manifest.digest)
        try:
            image, _ = subjects.look(self.registry.of(other))
        except RefusedError:  # not an image: a chart, a signature, an index of several
            return Holder(manifest.digest, None, False)
        return Holder(manifest.digest, image.created, self.cosign.signed(other.by_digest))

    def _words(self, level: str) -> dict[str, str]:
        """The labels, and what was proven, under the signature: the manifest's own annotations
        cannot be added without giving it another digest than the one that was verified."""
        labels = {key: value for key, value in self.subject.image.labels.items()
                  if key.startswith((f"{OCI}.", f"{OURS}."))}
        return {**labels, f"{OURS}.record": self.subject.record_hash, f"{OURS}.level": level,
                f"{OURS}.source": self.subject.record.source}
