"""The verify report, `apexlab.verify/1`: frozen values that know their JSON form.

The schema is shipped as schema/verify-1.json. Additive changes keep the name.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from apexlab.verify.record import SCHEMA as RECORD_SCHEMA
from apexlab.verify.record import Record

SCHEMA = "apexlab.verify/1"

STATIC, LOAD, RUN = "static", "load", "run"
LEVELS = (STATIC, LOAD, RUN)

ERROR, INCOMPLETE, WARNING, INFO = "error", "incomplete", "warning", "info"


@dataclass(frozen=True)
class Finding:
    """One thing that verify has to say. `severity` is "error" (exit 1), "incomplete" (exit 4:
    this could not be checked), "warning" or "info"; `extensions` are those that it concerns."""

    code: str
    severity: str
    message: str
    fix: str
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExtensionReport:
    """One extension: what was expected of it, what is there, and what was found.

    `status`: "proven", "loaded", "present", "broken", "absent" or "not-requested".
    """

    name: str
    expected: bool
    why: str
    status: str
    path: str | None = None
    sha256: str | None = None
    targets: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    kernels: int | None = None
    cuda_major: int | None = None
    cxx_abi: str = "unknown"
    needed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    proofs: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Device:
    """One visible GPU; `capability` as "9.0"."""

    name: str
    capability: str


@dataclass(frozen=True)
class Environment:
    """Where it was judged. `driver` and `devices` are empty where no GPU is visible."""

    python: str
    torch: str | None
    cuda: str | None
    driver: str | None = None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything; `findings` has each cause once, with the extensions that it concerns."""

    verdict: str
    exit_code: int
    level_asked: str
    level_reached: str
    kind: str
    subject: str
    environment: Environment
    record: Record | None
    record_path: str | None
    findings: tuple[Finding, ...] = ()
    extensions: tuple[ExtensionReport, ...] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        """The document as plain values, in the order that a reader wants."""
        data = asdict(self)
        record = None if self.record is None else {"schema": RECORD_SCHEMA, **data["record"]}
        return {"schema": SCHEMA, **data, "record": record}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(found for found in self.findings if found.severity == ERROR)


def schema(name: str) -> dict[str, Any]:
    """A JSON Schema that ships with verify: "verify-1" or "record-1"."""
    place = resources.files("apexlab.verify") / "schema" / f"{Path(name).name}.json"
    loaded: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return loaded
