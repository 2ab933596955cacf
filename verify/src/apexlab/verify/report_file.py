"""A verify report read back from its JSON, into the values that it was written from.

What comes from another machine is held against the types of report.py: a field that is absent or of
another kind makes the whole report unreadable, and additions of a newer apexlab are passed over.
"""

from __future__ import annotations

import json
import re
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from apexlab.verify import errors, strict
from apexlab.verify.record import SCHEMA as RECORD_SCHEMA
from apexlab.verify.record import Record, parse_record
from apexlab.verify.report import ERROR, FALLBACK, LEVELS, SCHEMA, Report

MAX_BYTES = 32 << 20  # eight GPUs and all that Apex has are below 1 MB
# An incomplete one was forgiven with --allow-no-gpu, or not.
CODES = {"proven": (errors.OK,), "ok": (errors.OK,), "fallback": (errors.FALLBACK,),
         "broken": (errors.PROBLEM,), "incomplete": (errors.CANNOT, errors.OK)}  # fmt: skip


class UnreadError(ValueError):
    """Why a file is no report that this apexlab reads; completes "FILE: "."""


def read_report(path: Path) -> Report:
    """The report in a file. Raises UnreadError."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise UnreadError("it cannot be opened: it is no file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadError(f"it cannot be opened: {error.strerror}") from error
    return parse_report(data)


def parse_report(data: bytes) -> Report:
    """The report in `data`. Raises UnreadError."""
    if not data.strip():
        raise UnreadError("it is empty: verify ended before it could write its report")
    if len(data) > MAX_BYTES:
        raise UnreadError(f"it is larger than {MAX_BYTES >> 20} MB, which no report is")
    try:
        content = strict.loads(data)
    except ValueError as error:  # not JSON, or not UTF-8
        raise UnreadError(f"it is not whole, or not JSON ({error})") from error
    _check_schema(content)
    report: Report = _value(Report, content, "the report")
    if report.level_asked not in LEVELS or report.level_reached not in LEVELS:
        raise UnreadError("it names a level that verify does not have")
    if report.exit_code not in CODES.get(report.verdict, ()):
        raise UnreadError(f"its verdict {report.verdict!r} and its exit code {report.exit_code} do "
                          "not belong together, so somebody changed it")
    findings = [*report.findings, *(found for one in report.extensions for found in one.findings)]
    grave = [found.code for found in findings if found.severity in (ERROR, FALLBACK)]
    if grave and report.verdict in ("ok", "proven"):
        raise UnreadError(f"its verdict {report.verdict!r} and what it found ({grave[0]}) do not "
                          "belong together, so somebody changed it")
    return report


def _check_schema(content: Any) -> None:
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema == SCHEMA:
        return
    if schema is None:
        raise UnreadError("it is JSON, and no report of apexlab verify: it has no schema")
    if str(schema).startswith("apexlab.verify-merge/"):
        raise UnreadError("it is what merge wrote of many reports: keep it in another folder")
    later = re.fullmatch(r"apexlab\.verify/([2-9]|[1-9]\d{1,3})", str(schema))
    why = "; a newer apexlab wrote it, so update this one" if later else ""
    raise UnreadError(f"its schema is {schema!r}, and this apexlab merges {SCHEMA}{why}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _value(kind: Any, data: Any, where: str) -> Any:
    """`data` as a value of the annotated type `kind`; `where` is its name in an error."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        if data is None:
            return None
        kind = next(one for one in typing.get_args(kind) if one is not types.NoneType)
    if kind is Record:
        return _record(data)
    if typing.get_origin(kind) is tuple:
        return tuple(_value(typing.get_args(kind)[0], one, where)
                     for one in _of(list, data, where))
    if is_dataclass(kind) and isinstance(kind, type):
        given = _of(dict, data, where)
        return kind(**{one.name: _value(_hints(kind)[one.name], given[one.name], one.name)
                       for one in fields(kind) if _has(given, one, where)})
    if kind is float:
        return float(_of((int, float), data, where))
    return _of(kind, data, where)


def _has(given: dict[str, Any], field: Any, where: str) -> bool:
    if field.name not in given and field.default is MISSING:
        raise UnreadError(f"it is no whole report: {where} has no {field.name}")
    return field.name in given


def _of(kind: Any, data: Any, where: str) -> Any:
    # JSON's true is no number, although Python's is.
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise UnreadError(f"it is no whole report: {where} is not what it has to be")
    return data


def _record(data: Any) -> Record:
    try:
        return parse_record(json.dumps(data), RECORD_SCHEMA)
    except errors.CannotError as error:
        raise UnreadError(f"its build record cannot be read: {error}") from error
