"""Which Apex is here, looked for as verify does it: by its files, and without importing anything.

Apex's own version says nothing, so its build record is what tells NVIDIA's Apex from a stand-in.
Without one its label is withheld, however well its kernels are proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from apexlab.verify import registered, site
from apexlab.verify.attribute import Registered
from apexlab.verify.errors import CannotError, UsageError
from apexlab.verify.examine import Demand, Seen, examine
from apexlab.verify.expectations import expectations
from apexlab.verify.found import PYTHON, Found
from apexlab.verify.judge import loadable
from apexlab.verify.record import Record
from apexlab.verify.report import ERROR

Label = Literal["Apex", "stand-in"]
_NVIDIAS = "apex"  # the source in a record of NVIDIA's own tree

# The extension behind each part of a training step. Apex's classes need no other one.
NEEDED = {"optimizer": "amp_C", "norm": "fused_layer_norm_cuda"}
CLASSES = {"optimizer": "FusedAdam", "norm": "its fused norms"}
_SAME = ("present", "label", "source", "commit", "version")  # of the Apex of one run


@dataclass(frozen=True)
class Subject:
    """The Apex of this environment. `why`: what there is to say against it; `files`: its compiled
    extensions by name; `broken`: what is wrong with those that cannot be used."""

    present: bool
    why: str = ""
    version: str | None = None
    record: Record | None = None
    files: Mapping[str, Found] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    torch_lib: Path | None = None

    @property
    def label(self) -> Label | None:
        """What its figures may be called; None where nobody knows what it was built from."""
        if not self.present or self.record is None:
            return None
        return "Apex" if self.record.source == _NVIDIAS else "stand-in"

    @cached_property
    def registered(self) -> Registered:
        """The kernels that its extensions and torch register; read at the first use, in about a
        second. Without a torch here, no kernel can be attributed."""
        if self.torch_lib is None:
            return Registered({}, {}, frozenset(), frozenset())
        return registered.read(self.files, self.torch_lib)

    def lacks(self, parts: Iterable[str]) -> str:
        """Why a scenario with these parts of Apex cannot run, as a sentence; "" if it can."""
        parts = tuple(parts)
        if parts and not self.present:
            return self.why or "Apex is not installed here."
        for part in parts:
            name = NEEDED[part]
            if name in self.broken:
                return f"Apex's {name} cannot be used: {self.broken[name]}"
            if name not in self.files:
                return (f"Apex is here without its extension {name}, which {CLASSES[part]} "
                        f"need{'s' if part == 'optimizer' else ''}.")
        return ""

    def document(self) -> dict[str, Any]:
        """What a result says of it."""
        record = self.record
        return {"present": self.present, "label": self.label, "why": self.why,
                "source": record.source if record else None,
                "commit": record.apex.get("commit") if record else None,
                "version": self.version}

    def record_document(self) -> dict[str, Any] | None:
        """The whole build record, None where there is none."""
        return asdict(self.record) if self.record else None


def find_subject() -> Subject:
    """The Apex that this Python would import, whatever state it is in."""
    try:
        located = site.running_site()
    except CannotError as error:
        return Subject(present=False, why=str(error))
    if located.package is None:
        return Subject(present=False, why="Apex is not installed here.",
                       torch_lib=located.torch.lib if located.torch else None)
    seen = {one.name.removeprefix("_"): one for one in examine(
        located, expectations(located.record), Demand())
        if one.found is not None and one.found.layout != PYTHON}
    files = {name: one.found for name, one in seen.items() if one.found and loadable(one)}
    return Subject(
        present=True, why=_against(located, files), version=next(iter(located.versions), None),
        record=located.record, files=files,
        broken={name: _wrong(one) for name, one in seen.items() if not loadable(one)},
        torch_lib=located.torch.lib if located.torch else None)


def _against(located: site.Subject, files: Mapping[str, Found]) -> str:
    if not files:
        return "Apex is here as Python code alone, without its extensions."
    if located.record is None:
        return ("The package apex here has no build record, so nothing says that it is NVIDIA's "
                "Apex, and its figures do not carry that name.")
    return ""


def _wrong(seen: Seen) -> str:
    errors = [one.message for one in seen.findings if one.severity == ERROR]
    return errors[0] if errors else "it is no compiled file."


def subject_of(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row that says which Apex was there. Raises UsageError where it changed on the way, for
    the times of one would carry the name of the other."""
    subjects = [row for row in rows if row["row"] == "subject"]
    known = {tuple(row["apex"].get(key) for key in _SAME): row["apex"] for row in subjects}
    if len(known) > 1:
        had = " and ".join(_named(apex) for apex in known.values())
        raise UsageError(f"What is installed as Apex changed within this run ({had}), so its times "
                         "do not belong together. Measure into another folder.")
    return subjects[-1]


def _named(apex: Mapping[str, Any]) -> str:
    words = [apex.get("label") or "of no record", apex.get("version"), apex.get("commit")]
    return " ".join(str(word) for word in words if word) if apex.get("present") else "none"
