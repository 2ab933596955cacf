"""Commands that are shown as a person would type them, run one after the other, and held against
what they must end with. Standard library only.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONG = 5  # seconds, from which on a step's time is said


class StepError(Exception):
    """It cannot go on, or is not as it must be; `code` is as the README has it."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def say(text: str = "") -> None:
    print(text, flush=True)


def must(right: bool, what: str) -> None:
    if not right:
        raise StepError(f"This is not so, and must be: {what}.")
    say(f"  checked: {what}")


def shown(path: Path) -> str:
    """How a person in the checkout writes it."""
    return os.path.relpath(path, ROOT)


@dataclass
class Walk:
    """`environ` is what the commands get on top of the environment that is there."""

    environ: Mapping[str, str]
    start: float = field(default_factory=time.monotonic)

    def title(self, text: str) -> None:
        say(f"\n== {time.monotonic() - self.start:4.0f} s  {text}")

    def run(self, *command: str | Path, ok: int = 0, out: Path | None = None, stdin: str = "",
            plain: bool = False, quiet: bool = False) -> str:
        """What a command prints to stdout, which goes to the file `out` as well; `plain` is without
        `environ`, and `quiet` shows its words only if it fails. Raises StepError unless it ends
        with `ok`."""
        words = [str(one) for one in command]
        line = shlex.join(words).replace(f"{ROOT}/", "")
        say(f"$ {line}{f' <<< {shlex.quote(stdin)}' if stdin else ''}"
            f"{f' > {shown(out)}' if out else ''}")
        begin = time.monotonic()
        environ = {**os.environ, **({} if plain else self.environ), "NO_COLOR": "1"}
        code, text, errors = _finish(words, environ, stdin, quiet)
        if out is not None:
            out.write_text(text)
        elif text and not (quiet and code == ok):
            say(text.rstrip())
        if errors and code != ok:
            say(errors.rstrip())
        if (took := time.monotonic() - begin) > LONG:
            say(f"  ({took:.0f} s)")
        if code != ok:
            raise StepError(f"`{line}` ended with exit code {code} and not with {ok}; its own "
                            "words are above.", code=4 if code == 4 else 1)
        if ok:
            say(f"  exit code {code}, as it must be")
        return text


def _finish(words: list[str], environ: dict[str, str], stdin: str, quiet: bool,
            ) -> tuple[int, str, str]:  # fmt: skip
    """Exit code, stdout and, if quiet, stderr. Whatever ends us, the child has to end first."""
    child = subprocess.Popen(words, cwd=ROOT, env=environ, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE if quiet else None,
                             stdin=subprocess.PIPE if stdin else subprocess.DEVNULL)
    try:
        text, errors = child.communicate(stdin or None)
    except BaseException:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(20)
        child.kill()
        child.wait()
        raise
    return child.returncode, text, errors or ""
