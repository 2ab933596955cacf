"""The matrix: which torch comes for which CUDA, which Apex commits we know, and the cells.

`load` reads matrix.toml, holds it against its JSON Schema and the semantic checks, and gives
frozen values. Nothing else in apexlab knows a version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import jsonschema
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from apexlab.build.checks import check
from apexlab.build.errors import MatrixError, MatrixUnreadableError
from apexlab.build.rows import Cell, Matrix, Os, Ref, Toolkit, Wheel
from apexlab.verify.arch import parse_archs
from apexlab.verify.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT_PATH", "Cell", "Matrix", "Ref", "Wheel", "load", "parse", "read"]

Row = TypeVar("Row")
DEFAULT_PATH = Path(str(resources.files(__package__) / "matrix.toml"))


def load(path: Path | None = None) -> Matrix:
    """The matrix in `path`, or the one that is shipped. Raises MatrixUnreadableError when there is
    no TOML to read, MatrixError when it breaks the schema or a semantic check."""
    path = path or DEFAULT_PATH
    tables = read(path)
    _hold_against_schema(tables, path)
    matrix = parse(tables, path)
    if findings := check(matrix):
        raise MatrixError(
            f"The matrix {path} contradicts itself in {len(findings)} place(s): "
            f"{' '.join(findings)} Correct these rows.")
    return matrix


def read(path: Path) -> dict[str, Any]:
    """The tables of the file as they are written. Raises MatrixUnreadableError."""
    try:
        return parse_text(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise MatrixUnreadableError(
            f"The matrix {path} cannot be read: {error.strerror}. Give the file back, or install "
            "apexlab-build again.") from error
    except UnicodeDecodeError as error:
        raise _not_toml(path, error) from error


def parse_text(text: str, path: Path) -> dict[str, Any]:
    """The tables in `text`, which `path` names in an error. Raises MatrixUnreadableError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _not_toml(path, error) from error


def _not_toml(path: Path, error: Exception) -> MatrixUnreadableError:
    return MatrixUnreadableError(f"The matrix {path} is not TOML: {error}. Correct it there, or "
                                 "take the shipped file again.")


def _hold_against_schema(tables: dict[str, Any], path: Path) -> None:
    schema = json.loads(DEFAULT_PATH.with_name("matrix.schema.json").read_text(encoding="utf-8"))
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(tables))
    if errors:
        more = f" There are {len(errors) - 1} more such faults." if len(errors) > 1 else ""
        where, what = _where(errors[0].absolute_path, tables), errors[0].message
        raise MatrixError(
            f"The matrix {path} does not follow its schema: {where}: {what}. Correct it there, "
            f"or take the shipped file again.{more}")


def _where(steps: Iterable[str | int], tables: Mapping[str, Any]) -> str:
    """Which row and field `steps` lead to: `cell 3 (torch 2.4.1, cuda 12.4), field os`."""
    table, number, *rest = [*map(str, steps), "", ""]
    if not number.isdecimal():  # not a row of a list
        field = ".".join(filter(None, (table, number, *rest)))
        return f"table {field}" if field else "the file"
    row = tables[table][int(number)]
    row = row if isinstance(row, dict) else {}
    keys = ("commit",) if "commit" in row else ("name", "torch", "cuda")
    names = ", ".join(f"{key} {row[key]}" for key in keys if isinstance(row.get(key), str))
    field = ".".join(filter(None, rest))
    return f"{table} {int(number) + 1}" + (f" ({names})" if names else "") \
        + (f", field {field}" if field else "")


def parse(tables: Mapping[str, Any], path: Path = DEFAULT_PATH) -> Matrix:
    """The frozen values of tables that follow the schema; `path` is named in a MatrixError."""

    def rows(table: str, make: Callable[[dict[str, Any]], Row]) -> tuple[Row, ...]:
        made = []
        for number, row in enumerate(tables[table]):
            try:
                made.append(make(row))
            except (UsageError, InvalidSpecifier) as error:
                where = _where([table, number], tables)
                raise MatrixError(
                    f"The matrix {path} cannot be used: {where}: {error} Correct that row."
                ) from error
        return tuple(made)

    return Matrix(
        systems=rows("os", lambda row: Os(**row)),
        toolkits=rows("toolkit", _toolkit),
        wheels=rows("wheel", _wheel),
        refs=rows("ref", lambda row: _ref(row, tables["flags"])),
        cells=rows("cell", _cell),
    )


def _toolkit(row: dict[str, Any]) -> Toolkit:
    systems = tuple(row["os"].split())
    return Toolkit(**{**row, "images": tuple(row["images"].split()), "os": systems,
                      "archs": parse_archs(row["archs"])})


def _wheel(row: dict[str, Any]) -> Wheel:
    rest = {k: v for k, v in row.items() if k != "python"}
    return Wheel(**{**rest, "pythons": tuple(row["python"].split()),
                    "patches": tuple(row["patches"].split()), "archs": parse_archs(row["archs"])})


def _ref(row: dict[str, Any], table: Mapping[str, list[str]]) -> Ref:
    if unknown := sorted(set(row["without"]) - set(table)):
        raise UsageError(f"Field without names {unknown[0]}, which is no flag.")
    own = {name: {since: tuple(targets.split()) for since, targets in steps.items()}
           for name, steps in row["own_targets"].items()}
    flags = {flag: tuple(names) for flag, names in table.items() if flag not in row["without"]}
    rest = {key: value for key, value in row.items() if key != "without"}
    return Ref(**{**rest, "torch": SpecifierSet(row["torch"]), "cuda": SpecifierSet(row["cuda"]),
                  "flags": flags, "own_targets": own})


def _cell(row: dict[str, Any]) -> Cell:
    return Cell(**{"source": "", "note": "", **row, "archs": parse_archs(row["archs"])})
