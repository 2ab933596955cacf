"""The build record, `apexlab.record/1`: the only identity that a build of Apex has.

Apex's own version is always 0.1, so what was asked for, from what, with what, and what came out
is written beside the wheel, into its dist-info and into the image. build writes it, verify reads
it; this module is where both agree on its shape.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apexlab.verify.arch import parse_archs, parse_target
from apexlab.verify.errors import CannotError, UsageError

SCHEMA = "apexlab.record/1"
MAX_BYTES = 4 << 20  # a record with all that Apex has is about 10 kB
IMAGE_PATH = Path("/opt/apexlab/record.json")
# They end up in a command line that people copy, so nothing but a version may be in them.
_VERSION = re.compile(r"[0-9A-Za-z.+_-]+")


@dataclass(frozen=True)
class Built:
    """One extension in the wheel: `file` is its path there, `bytes` and `sha256` of the stripped
    file, `targets` its machine code (`sm_90`), `ptx` its PTX (`compute_90`), `seconds` the time
    its compilation took (None where it was not measured)."""

    name: str
    file: str
    bytes: int
    sha256: str
    targets: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True)
class Record:
    """The whole record. Plain dictionaries hold what is only reported and never judged.

    apex: url, path, commit, tree (sha256 over the source files), request_style;
    torch: version (with local part), git, cuda, cxx11_abi, cxx_std;
    toolkit: nvcc, host_compiler; python: tag, platform;
    build: jobs, nvcc_threads, memory_limit, memory_peak (bytes), seconds;
    wheel: name, sha256 (None inside the wheel itself);
    images: devel and base, each name and digest.
    """

    source: str
    apex: dict[str, Any]
    torch: dict[str, Any]
    toolkit: dict[str, Any]
    python: dict[str, Any]
    archs: tuple[str, ...]
    profile: str
    requested: tuple[str, ...]
    built: tuple[Built, ...]
    build: dict[str, Any] = field(default_factory=dict)
    wheel: dict[str, Any] = field(default_factory=dict)
    images: dict[str, Any] = field(default_factory=dict)
    created: str = ""

    def to_json(self) -> str:
        """The JSON document, with a final newline."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2) + "\n"

    @property
    def short_source(self) -> str:
        """How reports name the source: `Apex 5c8860f1`, or the stand-in's own name."""
        commit = self.apex.get("commit") or self.apex.get("tree") or "unknown"
        return f"{'Apex' if self.source == 'apex' else self.source} {commit[:8]}"


def read_record(path: Path) -> Record:
    """The record in the file `path`. Raises CannotError."""
    try:
        with path.open("rb") as file:
            return parse_record(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise _unreadable(str(path), error) from error


def parse_record(text: str | bytes, where: str) -> Record:
    """The record in `text`. Raises CannotError, naming `where`, if it is not one we can read."""
    try:
        if len(text) > MAX_BYTES:
            raise ValueError("it is too large to be one")
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError("it is not an object")
        schema = data.pop("schema")
        if schema != SCHEMA:
            later = re.fullmatch(r"apexlab\.record/([2-9]|[1-9]\d{1,3})", str(schema))
            why = ", so a newer apexlab wrote it (update this one)" if later else ""
            raise ValueError(f"its schema is {schema!r}, and this apexlab reads {SCHEMA}{why}")
        known = {key: data[key] for key in Record.__dataclass_fields__ if key in data}
        _check_types(known)
        if not isinstance(data["built"], list):
            raise ValueError("built is not a list")
        known["built"] = tuple(_built(entry) for entry in data["built"])
        known["archs"] = _texts(data["archs"])
        if known["archs"]:
            parse_archs(";".join(known["archs"]))
        known["requested"] = _texts(data["requested"])
        if not known["requested"]:
            raise ValueError("it asks for no extension, so any installation would do")
        record = Record(**known)
        # Python reads NaN and 1e999, and writes what no other JSON reader takes.
        json.dumps(asdict(record), allow_nan=False)
        return record
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise _unreadable(where, error) from error


def _unreadable(where: str, error: Exception) -> CannotError:
    what = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
    return CannotError(f"The build record {where} cannot be read: {what}. Give the right one "
                       "with --record, or build again.")


def _check_types(known: dict[str, Any]) -> None:
    """What later code relies on: objects and texts where they belong, versions that are ones."""
    for name, kind in Record.__annotations__.items():
        if kind == "str" and not isinstance(known.get(name, ""), str):
            raise ValueError(f"{name} is not a text")
        if kind.startswith("dict") and not isinstance(known.get(name, {}), dict):
            raise ValueError(f"{name} is not an object")
    for name in ("commit", "tree"):
        if not isinstance(known["apex"].get(name), (str, type(None))):
            raise ValueError(f"apex.{name} is not a text")
    for name in ("version", "cuda"):
        value = known["torch"].get(name)
        if value is not None and not (isinstance(value, str) and _VERSION.fullmatch(value)):
            raise ValueError(f"torch.{name} is not a version")


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{values!r} is not a list of texts")
    return tuple(values)


def _built(entry: dict[str, Any]) -> Built:
    known = {key: entry[key] for key in Built.__dataclass_fields__ if key in entry}
    for name in ("name", "file", "sha256"):
        if not isinstance(entry[name], str):
            raise ValueError(f"{name} of a built extension is not a text")
    known["targets"] = _texts(entry.get("targets", []))
    known["ptx"] = _texts(entry.get("ptx", []))
    for target in (*known["targets"], *known["ptx"]):
        parse_target(target)
    return Built(**known)
