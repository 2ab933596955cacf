"""How the image was built, as SLSA's provenance, from the record that the build wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from apexlab.build.image_labels import OCI
from apexlab.build.publish.subject import Subject
from apexlab.verify.record import Record

PREDICATE = "https://slsa.dev/provenance/v1"
URN = "urn:apexlab"  # begins the names of types, which need no domain
BUILD_TYPE = f"{URN}:image:1"
LOCAL_BUILDER = f"{URN}:builder:by-hand"


def builder(environ: Mapping[str, str]) -> str:
    """Who vouches for the build: the workflow that runs, or just somebody with a key."""
    place = environ.get("GITHUB_WORKFLOW_REF")
    if environ.get("GITHUB_ACTIONS") != "true" or not place:
        return LOCAL_BUILDER
    return f"{environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{place}"


def provenance(subject: Subject, builder_id: str) -> dict[str, Any]:
    """The predicate. It holds nothing of the run that publishes, so that a second run, after a
    lost connection, says the same."""
    record, labels = subject.record, subject.image.labels
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": asked(record),
            "internalParameters": {
                "toolkit": record.toolkit, "record": subject.record_hash,
                "apexlab": labels.get(f"{OCI}.revision"),
            },
            "resolvedDependencies": list(_materials(subject)),
        },
        "runDetails": {
            "builder": {"id": builder_id},
            "metadata": {"finishedOn": subject.born.isoformat().replace("+00:00", "Z")},
        },
    }


def disagreements(predicate: Any, record: Record) -> list[str]:
    """What a signed provenance says otherwise than the record."""
    try:
        said = dict(predicate["buildDefinition"]["externalParameters"])
    except (KeyError, TypeError, ValueError):
        return ["it is no provenance of an image"]
    return [f"{key}: provenance {said.get(key)}, record {value}"
            for key, value in asked(record).items() if said.get(key) != value]


def asked(record: Record) -> dict[str, Any]:
    """What was asked of the build."""
    return {
        "source": record.source, "apex": record.apex.get("commit"),
        "torch": record.torch.get("version"), "cuda": record.torch.get("cuda"),
        "python": record.python.get("tag"), "archs": list(record.archs),
        "profile": record.profile, "extensions": list(record.requested),
    }  # fmt: skip


def _materials(subject: Subject) -> Iterator[dict[str, Any]]:
    """What went in, each with a hash, where the build knew one."""
    apex = subject.record.apex
    if commit := apex.get("commit"):
        yield {"uri": f"git+{apex.get('url') or 'local'}@{commit}", "digest": {"gitCommit": commit}}
    elif tree := apex.get("tree"):
        yield {"uri": f"tree:{subject.record.source}", "digest": {"apexlabTree": tree}}
    for kind in ("base", "devel"):
        image = subject.record.images.get(kind)
        if isinstance(image, dict) and image.get("name"):
            found = re.fullmatch(r"sha256:([0-9a-f]{64})", str(image.get("digest") or ""))
            digest = {"digest": {"sha256": found[1]}} if found else {}
            yield {"uri": f"docker://{image['name']}", "name": kind, **digest}
    for built in subject.record.built:
        yield {"name": built.name, "uri": f"file:{built.file}", "digest": {"sha256": built.sha256}}
