"""The reports that speak for an image: verify's, and the benchmark's. Read and held against their
shape here; whether they are good enough is decide's to say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema

from apexlab.build.errors import RefusedError
from apexlab.build.publish.subject import moment, record_hash
from apexlab.verify import strict
from apexlab.verify.errors import CannotError
from apexlab.verify.record import Record, parse_record
from apexlab.verify.report import ERROR, FALLBACK, SCHEMA, schema

BENCH_SCHEMA = "apexlab.bench/1"
MOST = 32 << 20


@dataclass(frozen=True)
class Verified:
    """What a verify report says, as far as publishing asks. `where` names it in messages; `image`
    is the digest that it says it was made in; `files` maps an extension to the hash of the file
    that was judged, `statuses` to what became of it; `record` is the hash of its `build` record;
    `grave` are the codes of its findings that no good report has."""

    where: str
    document: Mapping[str, Any]
    image: str | None
    created: datetime | None
    record: str | None
    build: Record | None
    kind: str
    verdict: str
    exit_code: int
    level: str
    torch: str | None
    files: Mapping[str, str | None]
    statuses: Mapping[str, str]
    gpus: tuple[str, ...]
    grave: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """The result of a benchmark; `complete` says that no round was left out."""

    where: str
    document: Mapping[str, Any]
    created: datetime | None
    record: str | None
    complete: bool


def read(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises CannotError, or RefusedError where it is none."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST + 1)
    except OSError as error:
        raise CannotError(f"{path} cannot be read: {error.strerror}. Name the file that `apexlab "
                          "verify --json` wrote.") from error
    try:
        if len(text) > MOST:
            raise ValueError(f"it has more than {MOST >> 20} MB")
        document = strict.loads(text)
        if not isinstance(document, dict):
            raise ValueError("it is no object")
        json.dumps(document, ensure_ascii=False).encode()  # what no text can hold, cosign changes
    except ValueError as error:
        raise RefusedError(f"{path} is no report: {error}. Nothing was published.") from error
    return document


def verified(document: Mapping[str, Any], where: str) -> Verified:
    """The verify report in `document`. Raises RefusedError where it is none."""
    fault = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema("verify-1")).iter_errors(document))
    if fault is not None:
        raise RefusedError(f"{where} is no report of `apexlab verify` ({SCHEMA}): "
                           f"{fault.json_path} {fault.message[:200]}. Give the file that "
                           "`apexlab verify --json` wrote.")
    build, environment = _record(document["record"], where), document["environment"]
    extensions = document["extensions"]
    return Verified(
        where=where, document=document, image=document.get("image"),
        created=moment(document.get("created")),
        record=record_hash(build) if build else None, build=build,
        kind=document["kind"], verdict=document["verdict"], exit_code=document["exit_code"],
        level=document["level_reached"], torch=environment["torch"],
        files={one["name"].removeprefix("_"): one["sha256"] for one in extensions},
        statuses={one["name"].removeprefix("_"): one["status"] for one in extensions},
        gpus=tuple(f"{one['name']} ({one['capability']})" for one in environment["devices"]),
        grave=tuple(found["code"] for one in (document, *extensions) for found in one["findings"]
                    if found["severity"] in (ERROR, FALLBACK)),
    )


def _record(record: Mapping[str, Any] | None, where: str) -> Record | None:
    """The record in a report, read as the image's own is, so that both leave out the same."""
    return parse_record(json.dumps(record), f"in {where}") if record is not None else None


def measured(document: Mapping[str, Any], where: str) -> Measured:
    """The benchmark's result in `document`. Raises RefusedError where it is none."""
    record = document.get("record")
    if document.get("schema") != BENCH_SCHEMA or not isinstance(record, (dict, type(None))):
        raise RefusedError(f"{where} is no result of `apexlab bench` ({BENCH_SCHEMA}). Give the "
                           "result.json of a run.")
    build = _record(record, where)
    return Measured(where, document, moment(document.get("created")),
                    record_hash(build) if build else None,
                    document.get("state", "complete") == "complete")
