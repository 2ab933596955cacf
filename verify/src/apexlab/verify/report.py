"""The verify report, `apexlab.verify/1`: frozen values that know their JSON form.

The schema is shipped as schema/verify-1.json. Additive changes keep the name.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from apexlab.verify.record import SCHEMA as RECORD_SCHEMA
from apexlab.verify.record import Record

SCHEMA = "apexlab.verify/1"

STATIC, LOAD, RUN = "static", "load", "run"
LEVELS = (STATIC, LOAD, RUN)

ERROR, FALLBACK, INCOMPLETE, WARNING, INFO = "error", "fallback", "incomplete", "warning", "info"

# What became of one call that was to be proven.
PROVEN, RAN_TORCH, WRONG, FAILED, BLIND, UNSUPPORTED = (
    "proven", "fallback", "wrong-numbers", "error", "blind", "unsupported")


@dataclass(frozen=True)
class Finding:
    """One thing that verify has to say. `severity` is "error" (exit 1), "fallback" (exit 5: torch's
    code ran instead), "incomplete" (exit 4: this could not be checked), "warning" or "info";
    `extensions` are those that it concerns."""

    code: str
    severity: str
    message: str
    fix: str
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One kernel that ran during a call: its demangled name and how often it was launched.

    `in_extension`: it lives in the extension's own binary and not in torch's; `also_in` names other
    extensions of Apex that hold a kernel of the same name, so that the call decides.
    """

    name: str
    count: int
    in_extension: bool
    also_in: tuple[str, ...] = ()


@dataclass(frozen=True)
class Numerics:
    """The largest error of a call's results against float64, in units of eps(dtype) times the
    largest reference value. `max_error` is None where a result was not finite, or there is none."""

    dtype: str
    max_error: float | None
    limit: float


@dataclass(frozen=True)
class Proof:
    """One call of `api` on `device` ("cuda:0"), and what it proves.

    `grade` is what is asked of its kind: "kernel", "call" or "host"; `condition` how it was called,
    "" or such as "autocast bf16"; `verdict` "proven", "fallback", "wrong-numbers", "error",
    "blind" (no instrument sees launches here) or "unsupported" (this ref has no such call).
    """

    api: str
    device: str
    grade: str
    condition: str
    kernels: tuple[Kernel, ...]
    numerics: Numerics
    verdict: str
    message: str = ""


@dataclass(frozen=True)
class Used:
    """A class of a model's norms or its optimizer, how many there are, and whether it is Apex's."""

    name: str
    count: int
    apex: bool


@dataclass(frozen=True)
class StepKernel:
    """A kernel of a model's training step: `extension` names Apex's module, None where it is
    another's; `microseconds` None where only the second instrument saw it."""

    name: str
    count: int
    extension: str | None
    microseconds: float | None


@dataclass(frozen=True)
class ModelReport:
    """One training step of a user's own model. `apex_share` is the part of the GPU time that ran
    in Apex's kernels, 0 to 1; None where the time is not known."""

    factory: str
    device: str
    norms: tuple[Used, ...]
    optimizer: Used | None
    kernels: tuple[StepKernel, ...]
    apex_share: float | None


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
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True)
class Device:
    """One visible GPU; `capability` as "9.0"."""

    name: str
    capability: str


@dataclass(frozen=True)
class Environment:
    """Where it was judged. `driver` and `devices` are empty where no GPU is visible; `instruments`
    are those that were seen to see launches: "profiler", "interposer"."""

    python: str
    torch: str | None
    cuda: str | None
    driver: str | None = None
    devices: tuple[Device, ...] = ()
    instruments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything; `findings` has each cause once, with the extensions that it concerns.

    `image` is the digest of the image it was made in, as whoever started that image says; `created`
    the time in UTC.
    """

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
    extensions: tuple[ExtensionReport, ...] = ()
    model: ModelReport | None = None
    seconds: float | None = None
    image: str | None = None
    created: str | None = None

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
    """A JSON Schema that ships with verify: "verify-1", "merge-1", "inspect-1" or "record-1"."""
    place = resources.files("apexlab.verify") / "schema" / f"{Path(name).name}.json"
    loaded: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return loaded
