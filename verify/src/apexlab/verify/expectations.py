"""Which extensions have to be there, and why.

The build record knows what was asked for; without one, whoever calls says it; without both, it
is the profile `core`, in which `fused_adam_cuda` is optional: a healthy default build has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apexlab.verify import extensions
from apexlab.verify.record import Record

_CORE = "the profile core"


@dataclass(frozen=True)
class Expectations:
    """`why` gives the reason for each expected extension, in the order of the report; `basis`
    says in words what all of it rests on."""

    why: dict[str, str]
    basis: str

    def __contains__(self, name: object) -> bool:
        return name in self.why

    def why_not(self, name: str) -> str:
        """Why an extension is not expected."""
        optional = self.basis == _CORE and name in extensions.OPTIONAL_WITHOUT_RECORD
        return f"{'optional in' if optional else 'not part of'} {self.basis}"


def expectations(record: Record | None, require: Iterable[str] = ()) -> Expectations:
    """What is expected. `require` adds to a record and replaces the core profile."""
    asked = dict.fromkeys(require, "--require names it")
    if record is not None:
        return Expectations(
            {**dict.fromkeys(record.requested, "the build record says that it was asked for"),
             **{name: why for name, why in asked.items() if name not in record.requested}},
            "the build record")
    if asked:
        return Expectations(asked, "--require")
    core = [extension.name for extension in extensions.of_flags(extensions.CORE_FLAGS)
            if extension.name not in extensions.OPTIONAL_WITHOUT_RECORD]
    return Expectations(
        dict.fromkeys(core, f"it belongs to {_CORE}"), _CORE)
