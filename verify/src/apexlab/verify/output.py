"""Results to stdout, whatever became of it, and to files, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from apexlab.verify.errors import CannotError


def make_encodable() -> None:
    """Let every text be printed: what the stream's encoding lacks is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write `text` and flush. A reader that left (`| head`) changes nothing about what was found,
    so the command goes on to its own exit code. Raises CannotError when the text is lost."""
    if sys.stdout is None:  # closed by the caller: apexlab ... >&-
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
    except OSError as error:
        silence()
        raise CannotError(f"The result cannot be written to stdout: {error.strerror}. Make room "
                          "there, or send it elsewhere.") from error


def complain(text: str) -> None:
    """Write to stderr. One that is closed or full changes no exit code."""
    try:
        click.echo(text, err=True)
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO | None = None) -> None:
    """Send a stream, stdout without one, nowhere: Python flushes it once more at exit, and ends
    with a code of its own (120) where that fails."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, (stream or sys.stdout).fileno())
        os.close(null)


def check_writable(path: Path) -> None:
    """Raise CannotError now, before a long check, where `write_file` would fail after it."""
    with _cannot(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "it is there, and may not be changed")
        if _replaceable(path):
            beside, descriptor = _beside(path)
            os.close(descriptor)
            beside.unlink()


def write_file(path: Path, text: str) -> None:
    """Write the file, whole or not at all. Raises CannotError."""
    with _cannot(path):
        if not _replaceable(path):  # a pipe or a terminal, which no file may replace
            path.write_text(text, encoding="utf-8")
            return
        beside, descriptor = _beside(path)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            if path.exists():
                beside.chmod(path.stat().st_mode & 0o7777)
            beside.replace(path.resolve())
        finally:
            beside.unlink(missing_ok=True)


def append(path: Path, text: str) -> None:
    """Add `text` to a file, whole or not at all. Raises CannotError."""
    with _cannot(path), path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        data = text.encode()
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(before)
            raise


def _replaceable(path: Path) -> bool:
    return path.is_file() or not path.exists()


def _beside(path: Path) -> tuple[Path, int]:
    """A new file in the folder of the real `path`, and its descriptor; its mode is as usual."""
    beside = path.resolve().with_name(f".apexlab-{os.urandom(8).hex()}")
    return beside, os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)


@contextlib.contextmanager
def _cannot(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotError(
            f"{path} cannot be written: {error.strerror}. Name a file in a folder that is there "
            "and can be written.") from error
