"""The name of an image in a registry: `ghcr.io/me/apexlab@sha256:...`, or with a tag."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from apexlab.verify.errors import UsageError

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(
    r"(?P<registry>(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|localhost|[A-Za-z0-9-]+(?=:))(?::\d{1,5})?)/"
    r"(?P<repository>[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?", re.ASCII)


@dataclass(frozen=True)
class Reference:
    """`registry` with its port; either of `tag` and `digest` may be ""."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def by_digest(self) -> str:
        """How everything but a person names it: with the digest alone."""
        return f"{self.name}@{self.digest}"

    def tagged(self, tag: str) -> str:
        """The name under `tag`."""
        return f"{self.name}:{tag}"

    def at(self, digest: str) -> Reference:
        """The same image, with this digest."""
        return replace(self, digest=digest)


def parse(text: str) -> Reference:
    """The reference in `text`. The registry has to be named: what is left out elsewhere means
    another registry for each tool. Raises UsageError."""
    found = _NAME.fullmatch(text)
    port = int((found and found["registry"].partition(":")[2]) or 443)
    if found is None or text.startswith("-") or not 0 < port < 1 << 16:
        raise UsageError(f"{text!r} is not the name of an image in a registry. Write it in full: "
                         "ghcr.io/me/apexlab@sha256:... or ghcr.io/me/apexlab:torch2.4-cuda12.4.")
    parts = found.groupdict()
    return Reference(parts["registry"], parts["repository"], parts["tag"] or "",
                     parts["digest"] or "")


def parse_digest(text: str) -> Reference:
    """The reference in `text`, which has to be by digest and nothing else. Raises UsageError."""
    reference = parse(text)
    if not reference.digest or reference.tag:
        raise UsageError(f"{text} names no digest alone. What is published is what was verified, "
                         "and a tag may be something else by now: give NAME@sha256:...")
    return reference


def parse_name(text: str) -> Reference:
    """The reference in `text`, which has to be a name alone. Raises UsageError."""
    reference = parse(text)
    if reference.tag or reference.digest:
        raise UsageError(f"{text} names one image, and this looks at all of them: give "
                         f"{reference.name}")
    return reference
