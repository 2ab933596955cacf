"""The level `load`: import each extension in a process of its own, and understand what happens.

The parent never loads anything. It starts the environment's Python with the text of child.py, in
an empty folder, so that no checkout beside the user's feet is imported by mistake.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from apexlab.verify import device, examine, process, versions, wrappers
from apexlab.verify.binary import is_torchs
from apexlab.verify.demangle import readable
from apexlab.verify.errors import UnreadableError
from apexlab.verify.findings import CUDA_SAYS, LOST_LATER, finding
from apexlab.verify.found import Found
from apexlab.verify.process import spelt
from apexlab.verify.report import Finding
from apexlab.verify.scratch import scratch
from apexlab.verify.site import Subject, same

SECONDS = 30.0  # for one extension; a healthy one takes milliseconds
TORCH_SECONDS = 300.0  # import torch from a cold network disk can take minutes


@dataclass(frozen=True)
class Loaded:
    """What the child said. `torch` None: the torch that was judged was imported, else the finding
    that says why not; `answers` by name; `wrappers` those about Apex's own Python modules."""

    torch: Finding | None
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrappers: dict[str, dict[str, Any]] = field(default_factory=dict)


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
    *((re.escape(said), code) for said, code in CUDA_SAYS),
    (r"Cannot re-initialize CUDA in forked subprocess", "fork-after-cuda"),
    (r"cannot enable executable stack", "exec-stack"),
    (r"does not define module export function", "not-a-module"),
    (r"(file too short|invalid ELF header|wrong ELF class\S*)", "wrong-file"),
    (r"([^\s:]+): cannot open shared object file", "library-missing"),
    (r"Found no NVIDIA driver", "no-driver"),
))


@dataclass
class _Import:
    """The one process of this level, a process.Task; `said` are its answers."""

    subject: Subject
    folder: Path
    orders: dict[str, Any]
    seconds_: tuple[float, float]
    said: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)

    def command(self) -> Sequence[str]:
        child = resources.files("apexlab.verify") / "child.py"
        return (str(self.subject.python.executable), "-c", child.read_text(encoding="utf-8"))

    def job(self) -> Mapping[str, Any]:
        return self.orders

    def environ(self) -> Mapping[str, str]:
        return os.environ

    def folders(self) -> tuple[Path, Path]:
        return self.folder / "empty", self.folder / "logs" / "child"

    def seconds(self) -> float:
        return self.seconds_[bool(self.said)]

    def answered(self, answer: dict[str, Any]) -> None:
        self.said.append(answer)

    def ended(self, how: dict[str, Any]) -> bool:
        self.end = how
        return False

    def printed(self) -> str:
        return self.folders()[1].read_bytes()[-2000:].decode("utf-8", "replace").strip()


def load(subject: Subject, files: Iterable[Found], seconds: float = SECONDS,
         torch_seconds: float = TORCH_SECONDS) -> Loaded:
    """Import `files` and Apex's own modules with the subject's Python; never raises for what
    they do."""
    files = list(files)
    wanted = [{"name": found.name, "module": found.stem, "layout": found.layout,
               "path": str(found.path)} for found in files]
    modules = wrappers.names(files) if subject.package is not None else []
    with scratch("load") as folder:
        for name in ("empty", "logs"):
            (folder / name).mkdir()
        orders = {"paths": subject.paths, "prepend": subject.prepend, "logs": str(folder / "logs"),
                  "seconds": seconds, "extensions": wanted, "wrappers": modules}
        task = _Import(subject, folder, orders, (torch_seconds, seconds + 30))
        process.attend([task])
        printed = task.printed()
    answers = {answer["name"]: answer for answer in task.said if "name" in answer}
    return Loaded(_torch_error(subject, answers.pop("torch", None), task.end, printed),
                  answers,
                  {answer["wrapper"]: answer for answer in task.said if "wrapper" in answer})


def _torch_error(subject: Subject, answer: dict[str, Any] | None, end: Mapping[str, Any],
                 output: str) -> Finding | None:
    if answer is None:
        last = output.splitlines()[-1] if output else ""
        return finding("torch-broken",
                       error=f"its import {process.how_it_ended(end)}. {last}".strip())
    if not answer.get("ok"):
        return finding("torch-broken", error=f"{answer['kinds'][0]}: {answer['text']}")
    judged, other = subject.torch, Path(answer["file"]).parent
    if judged is not None and not same(judged.lib.parent, other):
        # All that loads would have been loaded beside another torch than the one that was read.
        return finding("torch-shadowed", judged=judged.lib.parent, other=other)
    return None


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
        if not same(Path(other), found.path):
            return finding("shadowed", other=other, **fill)
        return _without_operations(answer, fill)
    if "hang" in answer:
        return finding("hang", seconds=answer["hang"], **fill)
    if "ended" in answer:
        last = (answer.get("output") or "").strip().splitlines()
        output = f" It said: {last[-1][:300]}" if last else ""
        if answer["ended"] < 0:
            return finding("crash", signal=spelt(answer["ended"]), output=output, **fill)
        return finding("exit", status=answer["ended"], output=output, **fill)
    return _error(answer, found, fill)


def _without_operations(answer: dict[str, Any], fill: dict[str, str]) -> Finding | None:
    """A library may load and register nothing that could be called."""
    if "ops" not in answer:
        return None  # a module
    if answer["ops"] is None:
        return finding("not-loaded", reason="it was, but this torch does not tell which operations "
                       "came with it", **fill)
    return None if answer["ops"] else finding("no-operations", **fill)


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
        if is_torchs(group):
            code = "torch-abi-mismatch"
        return finding(code, symbol=readable(group), more="", **fill)
    whose = re.search(r"(/[^:]+): " + re.escape(group), text)
    if code == "wrong-file" and whose and whose[1] != str(found.path) and not same(
            Path(whose[1]), found.path):
        return finding("library-broken", library=whose[1], reason=group, **fill)
    if code == "library-missing":
        # glibc says the same of a file for another machine, although its path exists.
        if group == str(found.path) or Path(group).name == found.path.name:
            return finding("wrong-machine", machine="another machine", here=os.uname().machine,
                           **fill)
        return examine.missing_library(Path(group).name, **fill)
    if code == "driver-too-old" and not device.has_driver():
        code = "no-driver"  # the runtime says the same of a driver that is not there at all
    return finding(code, version=group, reason=group, other="", error=text[:500], what=text[:500],
                   call=f"import {fill['name']}", device="the GPU here", more="",
                   **_who_lacks(group, text), **fill)


def _who_lacks(version: str, text: str) -> dict[str, str]:
    """The library that lacks a symbol version, and where it stops."""
    found = re.search(r"(\S+): version [`']", text)
    library = found[1] if found else "the library here"
    try:
        newest = versions.newest(versions.kind(version) or "", versions.defined(Path(library)))
    except UnreadableError:
        newest = "an older one"
    return {"library": library, "newest": newest}
