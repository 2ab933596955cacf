"""Presets by name, or from a TOML file of one's own."""

from __future__ import annotations

import difflib
import os
import re
import sys
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from apexlab.bench.errors import PresetError
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.stream import VOCABULARIES
from apexlab.bench.planning.preset import Preset
from apexlab.bench.planning.scenario import unknown
from apexlab.verify.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED = Path(str(resources.files(__package__) / "presets.toml"))
LARGEST = 2**20  # bytes of a file that describes one model
# From where to where each number makes sense; beyond it, it is a slip of the finger.
BOUNDS = {
    "layers": range(1, 1001), "width": range(1, 2**16 + 1), "heads": range(1, 1025),
    "ffn": range(1, 2**18 + 1), "vocabulary": VOCABULARIES, "context": range(2, 2**20 + 1),
    "batch": range(1, 2**16 + 1), "seconds": range(1, 3601),
}
OPTIONAL = {"seconds": 30}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
SHAPE_KEYS = [field.name for field in fields(Shape)]
KEYS = [*SHAPE_KEYS, "batch", "seconds"]


def find_preset(name_or_file: str) -> Preset:
    """The preset of this name; else the one in this TOML file. Raises PresetError.

    A name wins over a file of the same name: `./tiny` is the file.
    """
    shipped = presets()
    if name_or_file in shipped:
        return shipped[name_or_file]
    path = Path(name_or_file)
    if path.suffix == ".toml" or os.sep in name_or_file or path.exists():
        return read_preset(path)
    raise PresetError(f"{unknown('preset', name_or_file, shipped)} Your own comes from a file: "
                      "--preset NAME.toml.")


def presets() -> dict[str, Preset]:
    """The presets that are shipped, by name."""
    tables = read_tables(SHIPPED)
    return {name: make_preset(name, row, SHIPPED) for name, row in tables.items()}


def read_preset(path: Path) -> Preset:
    """The one preset in a file. Raises PresetError, which says what to correct."""
    tables = read_tables(path)
    if len(tables) != 1:
        has = f"has {len(tables)}: {', '.join(tables)}" if tables else "has none"
        raise PresetError(f"{path} {has}. A preset file holds one table, [name], with the keys "
                          f"{', '.join(KEYS)}.")
    (name, row), = tables.items()
    if not NAME.fullmatch(name):
        raise PresetError(f"{path} calls its preset {name[:40]!r}, and a folder and a table are "
                          "named after it. Name it with letters, digits, dots, dashes and "
                          "underscores, at most 64.")
    if name in presets() and path != SHIPPED:
        raise PresetError(f"{path} calls its preset {name}, which is the name of a shipped one, so "
                          "its results would be taken for that one's. Name it otherwise.")
    return make_preset(name, row, path)


def read_tables(path: Path) -> dict[str, Any]:
    """What a TOML file holds. Raises PresetError."""
    try:
        if path.exists() and not path.is_file():
            raise PresetError(f"The preset {path} is not a file. Name a TOML file.")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise PresetError(f"The preset file {path} cannot be read: {error.strerror}. Name a file "
                          "that is there, or a shipped preset.") from error
    if len(data) > LARGEST:
        raise PresetError(f"The preset file {path} is larger than {LARGEST} bytes, so it does not "
                          "describe one model. Name another.")
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise PresetError(f"The preset file {path} is not TOML: {error}. Correct it "
                          "there.") from error


def make_preset(name: str, row: Any, path: Path) -> Preset:
    """The preset of one table. Raises PresetError, which names the file, the table and the key."""
    where = f"The preset {name} in {path}"
    if not isinstance(row, dict):
        raise PresetError(f"{where} is not a table: {name} stands at the top. Put a line "
                          "[my-model] above the keys.")
    values = {**OPTIONAL, **row}
    for key in row:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise PresetError(f"{where} has a key {key}, which means nothing.{meant} The keys are "
                              f"{', '.join(KEYS)}.")
    if lacking := [key for key in KEYS if key not in values]:
        raise PresetError(f"{where} lacks {', '.join(lacking)}. Add them; the keys are "
                          f"{', '.join(KEYS)}.")
    for key, bounds in BOUNDS.items():
        if type(values[key]) is not int or values[key] not in bounds:
            raise PresetError(f"{where}: {key} is a whole number from {bounds[0]} to {bounds[-1]}, "
                              f"not {values[key]!r}.")
    try:
        shape = Shape(**{key: values[key] for key in SHAPE_KEYS})
    except UsageError as error:
        raise PresetError(f"{where} is no model: {error}") from error
    return Preset(name, shape, values["batch"], values["seconds"])
