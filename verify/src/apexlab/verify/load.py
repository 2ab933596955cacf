"""The level `load`: import each extension in a process of its own, and understand what happens.

The parent never loads anything. It starts the environment's Python with the text of child.py, in
an empty folder, so that no checkout beside the user's feet is imported by mistake.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from apexlab.verify import examine
from apexlab.verify.binary import TORCH_SYMBOL
from apexlab.verify.errors import CannotError
from apexlab.verify.findings import LOST_LATER, finding
from apexlab.verify.link import demangle
from apexlab.verify.report import Finding
from apexlab.verify.scratch import scratch
from apexlab.verify.site import Found, Subject

SECONDS = 30.0  # for one extension; a healthy one takes milliseconds
TORCH_SECONDS = 300.0  # import torch from a cold network disk can take minutes


@dataclass(frozen=True)
class Loaded:
    """What the child said. `torch` None: the torch that was judged was imported, else the finding
    that says why not; `answers` by name."""

    torch: Finding | None
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Pattern:
    """A text of the loader or of Python, and the finding that it means."""

    text: re.Pattern[str]
    code: str


# The first that fits. Group 1, where there is one, is the library, symbol or version.
_PATTERNS = tuple(_Pattern(re.compile(text), code) for text, code in (
    (r"undefined symbol: (\S+?)(?:[,\s]|$)", "undefined-symbol"),
    (r"version [`'](GLIBC_\S+?)' not found", "glibc-too-old"),
    (r"version [`']((?:GLIBCXX|CXXABI)_\S+?)' not found", "libstdcxx-too-old"),
    (r"cannot enable executable stack", "exec-stack"),
    (r"does not define module export function", "not-a-module"),
    (r"(file too short|invalid ELF header|wrong ELF class\S*)", "wrong-file"),
    (r"([^\s:]+): cannot open shared object file", "library-missing"),
    (r"Found no NVIDIA driver", "no-driver"),
))


def load(subject: Subject, files: Iterable[Found], seconds: float = SECONDS,
         torch_seconds: float = TORCH_SECONDS) -> Loaded:
    """Import `files` with the subject's Python; never raises for what they do."""
    wanted = [{"name": found.name, "module": found.stem, "layout": found.layout,
               "path": str(found.path)} for found in files]
    with scratch("load") as folder:
        cwd, logs = folder / "empty", folder / "logs"
        cwd.mkdir()
        logs.mkdir()
        reading, writing = os.pipe()
        job = {"fd": writing, "paths": subject.paths, "prepend": subject.prepend,
               "logs": str(logs), "seconds": seconds, "extensions": wanted}
        try:
            with (logs / "child").open("wb") as output:
                process = subprocess.Popen(
                    [str(subject.python.executable), "-c", _child(), json.dumps(job)],
                    cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=(writing,), start_new_session=True)
        except OSError as error:
            os.close(reading)
            raise CannotError(
                f"The Python {subject.python.executable} that would import the extensions cannot "
                f"be started ({error}). Repair that environment, or use --level static."
            ) from error
        finally:
            os.close(writing)
        try:
            lines = _lines(reading, torch_seconds, seconds + 30)
            answers = {answer["name"]: answer for answer in map(json.loads, lines)}
        finally:
            os.close(reading)
            _end(process)
        text = (logs / "child").read_bytes()[-2000:].decode("utf-8", "replace").strip()
    return Loaded(_torch_error(subject, answers.pop("torch", None), process.returncode, text),
                  answers)


def _child() -> str:
    return (resources.files("apexlab.verify") / "child.py").read_text(encoding="utf-8")


def _lines(reading: int, first: float, later: float) -> Iterator[str]:
    """The answers as they come; ends when the pipe closes or when one is overdue."""
    rest, limit = b"", first
    while True:
        deadline = time.monotonic() + limit
        while b"\n" not in rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([reading], [], [], left)[0]:
                return
            piece = os.read(reading, 1 << 16)
            if not piece:
                return
            rest += piece
        line, _, rest = rest.partition(b"\n")
        limit = later
        yield line.decode()


def _end(process: subprocess.Popen[bytes]) -> None:
    # The whole group: an extension may have started processes that outlive it.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _torch_error(subject: Subject, answer: dict[str, Any] | None, code: int, output: str,
                 ) -> Finding | None:
    if answer is None:
        last = output.splitlines()[-1] if output else ""
        how = ("its import did not come back and was stopped" if code == -signal.SIGKILL
               else f"its import ended the process ({_status(code)})")
        return finding("torch-broken", error=f"{how}. {last}".strip())
    if not answer.get("ok"):
        return finding("torch-broken", error=f"{answer['kinds'][0]}: {answer['text']}")
    judged, other = subject.torch, Path(answer["file"]).parent
    if judged is not None and not same_file(judged.lib.parent, other):
        # All that loads would have been loaded beside another torch than the one that was read.
        return finding("torch-shadowed", judged=judged.lib.parent, other=other)
    return None


def same_file(one: Path, other: Path) -> bool:
    """Whether both are there and the same."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def understood(name: str, answer: dict[str, Any] | None, found: Found, fill: dict[str, str],
               ) -> Finding | None:
    """The finding behind one answer of the child; None if the extension was imported.

    `fill` has torch and rebuild, for the sentences.
    """
    fill = {**fill, "name": name}
    if answer is None:
        return finding("not-loaded", reason="the process that imports ended early", **fill)
    if answer.get("ok"):
        other = answer.get("file") or "a built-in module"
        if not same_file(Path(other), found.path):
            return finding("shadowed", other=other, **fill)
        return None
    if "hang" in answer:
        return finding("hang", seconds=answer["hang"], **fill)
    if "ended" in answer:
        last = (answer.get("output") or "").strip().splitlines()
        output = f" It said: {last[-1][:300]}" if last else ""
        if answer["ended"] < 0:
            return finding("crash", signal=_status(answer["ended"]), output=output, **fill)
        return finding("exit", status=answer["ended"], output=output, **fill)
    return _error(answer, found, fill)


def _error(answer: dict[str, Any], found: Found, fill: dict[str, str]) -> Finding:
    text, kinds = answer["text"], answer["kinds"]
    if "ModuleNotFoundError" in kinds and answer.get("missing") == found.stem:
        return finding("not-installed", why="its file is there",
                       advice=LOST_LATER.format(rebuild=fill["rebuild"]), **fill)
    for pattern in _PATTERNS:
        if match := pattern.text.search(text):
            group = match[1] if match.groups() else ""
            return _matched(pattern.code, group, text, found, fill)
    return finding("import-error", error=f"{kinds[0]}: {text.strip()[:500]}", **fill)


def _matched(code: str, group: str, text: str, found: Found, fill: dict[str, str]) -> Finding:
    if code == "undefined-symbol":
        if TORCH_SYMBOL.match(group):
            code = "torch-abi-mismatch"
        return finding(code, symbol=demangle(group), more="", **fill)
    if code == "library-missing":
        # glibc says the same of a file for another machine, although its path exists.
        if group == str(found.path) or Path(group).name == found.path.name:
            return finding("wrong-machine", machine="another machine", here=os.uname().machine,
                           **fill)
        return examine.missing_library(Path(group).name, **fill)
    return finding(code, version=group, reason=group, other="", error=text[:500], **fill)


def _status(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        return f"signal {-code}"
