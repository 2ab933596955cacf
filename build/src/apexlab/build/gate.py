"""The gate: verify opens the finished wheel, and whatever it finds wrong fails the build.

The rules live in verify alone, so an image, an installation and a fresh wheel are judged alike.
What setup.py printed, or that it ended with 0, counts for nothing here.
"""

from __future__ import annotations

from pathlib import Path

from apexlab.build.errors import CompileError
from apexlab.build.request import Request
from apexlab.verify import errors
from apexlab.verify.record import Record
from apexlab.verify.report import ERROR, INCOMPLETE, Finding
from apexlab.verify.static import verify_wheel


def check(wheel: Path, record: Record, request: Request) -> None:
    """Raises CompileError, with all that verify finds, unless the wheel is good."""
    try:
        report = verify_wheel(wheel, record, own_targets=request.own_targets)
    except errors.UnreadableError as error:
        raise CompileError(f"The build ended without an error, but {error}") from error
    if report.exit_code != errors.OK:
        raise CompileError(refusal(report.findings, len(request.extensions)))


def refusal(findings: tuple[Finding, ...], asked: int) -> str:
    """The paragraph for a wheel that is refused: every cause once, with what to do."""
    # "incomplete" too: here torch and its libraries are present, so nothing may stay unchecked.
    causes = [found for found in findings if found.severity in (ERROR, INCOMPLETE)]
    lines = [f"- {found.code}: {found.message} {found.fix}".rstrip() for found in causes]
    return "\n".join([
        f"The build ended without an error, but its wheel is not what was asked for ({asked} "
        "extensions). It was not written.", *lines])
