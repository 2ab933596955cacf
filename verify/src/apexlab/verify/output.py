"""Results to stdout, whatever became of it."""

from __future__ import annotations

import contextlib
import io
import os
import sys

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


def silence() -> None:
    """Send stdout nowhere: Python flushes it once more at exit, and would complain."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
