"""The folder of a run: plan.json, and runs.jsonl, to which each finished process adds a line."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apexlab.bench.planning.plan import SCHEMA
from apexlab.verify import output
from apexlab.verify.errors import CannotError, UsageError

PLAN, ROWS = "plan.json", "runs.jsonl"


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run of this command."""
    return (folder / PLAN).is_file()


def read_plan(folder: Path) -> dict[str, Any]:
    """plan.json. Raises UsageError when there is none, or another version wrote it."""
    path = folder / PLAN
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{folder} holds no run: there is no {PLAN} in it. Name the folder that "
                         "`apexlab bench train` wrote.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Measure again into another "
                         "folder.") from error
    schema = plan.get("schema") if isinstance(plan, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"{path} has the schema {schema!r}, and this version of apexlab reads "
                         f"{SCHEMA!r}. Use the version that wrote it, or measure again into "
                         "another folder.")
    return dict(plan)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows that were written whole; a torn last line is none. Raises UsageError."""
    path = folder / ROWS
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    rows = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("it holds no row")
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path} is damaged in line {number}: {error}. Take that line out, "
                             "or measure again into another folder.") from error
        rows.append(row)
    return rows


class Store:
    """A run's folder, held by this process alone. Made by `opened`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = read_rows(folder)
        self._drop_torn_line()

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        output.write_file(self.folder / PLAN, json.dumps(plan, indent=1) + "\n")

    def append(self, row: dict[str, Any]) -> None:
        """Add a row, on disk when this returns, whole or not at all. Raises CannotError."""
        path, data = self.folder / ROWS, (json.dumps(row) + "\n").encode()
        try:
            with path.open("ab", buffering=0) as file:
                before = file.seek(0, os.SEEK_END)
                try:
                    if file.write(data) != len(data):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(before)
                    raise
        except OSError as error:
            raise CannotError(
                f"{path} cannot be written: {error.strerror}. The {len(self.rows)} results before "
                "this one are kept: make room there, and go on with --resume.") from error
        self.rows.append(row)

    def has_times(self) -> bool:
        """Whether any run was finished, so that there is something to report."""
        return any(row["row"] == "run" and row["result"]["ending"] == "finished"
                   for row in self.rows)

    def _drop_torn_line(self) -> None:
        path = self.folder / ROWS
        with contextlib.suppress(FileNotFoundError):
            whole = path.read_bytes().rpartition(b"\n")
            if whole[2]:
                os.truncate(path, len(whole[0]) + len(whole[1]))


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    """The store of a folder, which is made where it is absent. Raises CannotError where it cannot
    be, or where another command writes there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise CannotError(f"The folder {folder} cannot be made: {error.strerror}. Name one that "
                          "can be written: --out DIR.") from error
    try:
        _lock(handle, folder)
        if not os.access(folder, os.W_OK):
            raise CannotError(f"The folder {folder} cannot be written. Name one that can be: "
                              "--out DIR.")
        yield Store(folder)
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CannotError(f"Another apexlab is measuring into {folder}. Wait for it, or name "
                          "another folder: --out DIR.") from error
    except OSError:
        pass  # some network file systems lock nothing
