"""Reading a result, and its place in a run's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apexlab.bench.errors import SamplesError
from apexlab.bench.result.result import SCHEMA
from apexlab.verify.errors import UsageError

RESULT = "result.json"
SCHEMA_FILE = Path(__file__).parent / "schema" / "bench-1.json"
LARGEST = 1 << 28  # bytes; the largest that this version writes is a hundredth of it
_PARTS: dict[str, tuple[tuple[str, type], ...]] = {
    "train": (("plan", dict), ("noise", dict), ("scenarios", list)), "ops": (("points", list),)}
_ALWAYS = (("version", str), ("state", str), ("configuration_hash", str), ("environment", dict),
           ("headline", str), ("advice", list), ("warnings", list))


def read_result(path: Path) -> dict[str, Any]:
    """A result, from its file or from the folder of its run. Raises UsageError for a file that
    cannot be read, is damaged, or was written by a version with another schema."""
    file = path / RESULT if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError("it is too large for a result")
        found = json.loads(data.decode(), parse_constant=_no_number)
    except FileNotFoundError as error:
        raise UsageError(f"There is no result at {file}. Name a result.json, or a folder that "
                         "`apexlab bench` wrote; `apexlab bench report DIR` makes the result of a "
                         "run that was interrupted.") from error
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"The result {file} cannot be read: {why}. Name another, or make it "
                         "again: `apexlab bench report DIR`.") from error
    _check(found, file)
    return dict(found)


@contextmanager
def damaged(place: Path) -> Iterator[None]:
    """Around what is made of files that anything may have happened to. Raises UsageError where
    they hold something that no version of this command writes."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError, SamplesError) as error:
        raise UsageError(
            f"{place} is damaged: something in it is not as `apexlab bench` writes it "
            f"({type(error).__name__}: {error}). Restore it, or measure again into another "
            "folder; `apexlab --debug ...` shows what was being read.") from error


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")


def _check(found: Any, file: Path) -> None:
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        what = f"has the schema {schema}" if isinstance(schema, str) else "is no result of a bench"
        raise UsageError(f"{file} {what}, and this version of apexlab reads {SCHEMA}. Use the "
                         "version that wrote it, or make the result again from its run's folder: "
                         "`apexlab bench report DIR`.")
    kind = found.get("kind")
    parts = (*_ALWAYS, *_PARTS.get(str(kind), ()))
    wrong = [key for key, type_ in parts if not isinstance(found.get(key), type_)]
    if kind not in _PARTS or wrong:
        what = f"lacks {', '.join(wrong)}" if kind in _PARTS else f"is of the kind {kind!r}"
        raise UsageError(f"The result {file} is damaged: it {what}. Make it again from its run's "
                         "folder: `apexlab bench report DIR`.")
