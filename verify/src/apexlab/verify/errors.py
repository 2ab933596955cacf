"""The errors of verify, and the base of every error that apexlab shows to a person.

A message is one short paragraph: what failed, why, and what to do next. Each class carries the
exit code that the command ends with.
"""

from __future__ import annotations

OK = 0
PROBLEM = 1
USAGE = 2
INTERNAL = 3
CANNOT = 4
FALLBACK = 5
INTERRUPTED = 130

# When several apply, the first of these is the one that the command ends with.
PRECEDENCE = (INTERNAL, PROBLEM, FALLBACK, CANNOT, OK)


class ApexlabError(Exception):
    """Base of all errors with a message for people; `exit_code` is the command's exit code."""

    exit_code = INTERNAL


class ProblemError(ApexlabError):
    """Something that was asked for is absent or broken, or a build failed."""

    exit_code = PROBLEM


class UsageError(ApexlabError):
    """The request itself cannot be met by anything: a bad value, an unknown name."""

    exit_code = USAGE


class CannotError(ApexlabError):
    """What was asked cannot be done or checked here: no GPU, no engine, no disk, no network."""

    exit_code = CANNOT


class UnreadableError(ProblemError):
    """A binary or a wheel that cannot be read. `reason` completes "it is ..."; `part` is "file"
    or "fatbin", for the fix differs: a broken file is replaced, an unknown fatbin is looked into.
    """

    def __init__(self, where: object, reason: str, part: str = "file") -> None:
        super().__init__(
            f"{where} cannot be read: {reason}. Nothing is said about what it holds; take it "
            "from its source again.")
        self.where = str(where)
        self.reason = reason
        self.part = part


def worst(codes: list[int]) -> int:
    """The exit code that wins when several apply; 0 for none."""
    return next((code for code in PRECEDENCE if code in codes), OK)
