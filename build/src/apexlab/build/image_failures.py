"""From the output of a failed build to one paragraph: a table of patterns, and who wins.

What apexlab itself said inside the failed step comes first, since it knows best. Otherwise the
words of BuildKit, apt, pip or uv are looked up here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# How `apexlab verify` prints what is wrong.
_FINDING = re.compile(r"error\s+[a-z-]+: ")


@dataclass(frozen=True)
class Known:
    """A failure that is not Apex's: what to look for, and what to say and do."""

    pattern: re.Pattern[str]
    message: str


def _known(pattern: str, message: str) -> Known:
    return Known(re.compile(pattern, re.IGNORECASE), message)


# The first that matches wins, so the narrow ones come first.
KNOWN = (
    _known(r"permission denied while trying to connect|dial unix .*: permission denied",
           "You have no rights on the container engine's socket. Add yourself to the group docker "
           "(and log in again), or use sudo."),
    _known(r"cannot connect to the docker daemon|is the docker daemon running|"
           r"failed to connect to the docker api",
           "The container engine does not answer. Start it: systemctl start docker."),
    _known(r"'?buildx'? is not a docker command|unknown command: docker buildx|"
           r"unknown flag: --progress",
           "docker has no buildx. Install the package docker-buildx-plugin (Docker's) or "
           "docker-buildx (Debian's)."),
    _known(r"no space left on device|disk quota exceeded",
           "The disk of the container engine is full. Free some space: `docker system df` shows "
           "what takes it, `docker buildx prune` empties the build cache."),
    _known(r"pull access denied, repository does not exist|apexlab/offline:\S+: not found",
           "A base image does not exist in its registry, or only for those who are logged in. "
           "Bases of --base offline are made by `apexlab base-images`."),
    _known(r"manifest unknown|manifest for \S+ not found|"
           r"\d+\.\d+\.\d+-(?:base|devel)-\S+: not found",
           "The tag of a base image is gone from its registry: NVIDIA deletes old ones. Choose a "
           "cell with a newer CUDA (apexlab matrix), name a mirror that kept it with --build-arg "
           "BASE_IMAGE=... and DEVEL_IMAGE=..., or use --base offline where that has the cell."),
    _known(r"certificate verify failed|certificate signed by unknown authority|"
           r"invalid peer certificate|server certificate verification failed|"
           r"certificate verification failed",
           "A server's certificate is not signed by an authority that the build knows. Where the "
           "network has its own, give its certificates with --ca FILE (often "
           "/etc/ssl/certs/ca-certificates.crt of this host); to fetch images or Apex, the engine "
           "itself must know them too."),
    _known(r"no such host|temporary failure (?:in name resolution|resolving)|"
           r"network is unreachable|could not resolve|failed to lookup address|"
           r"name or service not known|"
           r"i/o timeout|connection (?:refused|timed out|reset)|tls handshake timeout|"
           r"failed to establish a new connection|operation timed out|error sending request",
           "The network does not reach what the build needs. Check it, and proxies; for mirrors "
           "see --build-arg and --apex-source; without a registry of images, use --base offline."),
    _known(r"no matching distribution found|no solution found when resolving",
           "The package index does not have a version that the cell needs. A mirror may be behind; "
           "see --build-arg PIP_INDEX_URL=... and TORCH_INDEX=..."),
)  # fmt: skip


def explain(lines: Sequence[str]) -> str | None:
    """What to say about output that ended with a failure, None where no pattern knows it."""
    text = "\n".join(lines)
    return next((known.message for known in KNOWN if known.pattern.search(text)), None)


def own_words(lines: Sequence[str]) -> str | None:
    """What apexlab itself said in the step: the last error paragraph of `compile`, or the findings
    of `verify`, which it prints below its table."""
    starts = [number for number, line in enumerate(lines) if line.startswith("apexlab: ")]
    if not starts:
        return "\n".join(line for line in lines if _FINDING.match(line)) or None
    # The log it names was in the step that failed, and is gone.
    kept = (line for line in lines[starts[-1]:] if not line.startswith("The full log: /out/"))
    return "\n".join(kept).removeprefix("apexlab: ").strip()
