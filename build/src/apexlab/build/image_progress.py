"""Reads what `docker buildx bake --progress plain` prints and knows which step is running.

Pure: lines in, short lines for people out. What every step printed is kept, so that the end of a
failed one can be shown without the noise of the others.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

# What the stages of docker/Dockerfile and docker/offline/Dockerfile do, for people.
STAGES = {
    "apex": "fetching the source of Apex",
    "venv": "Python and torch",
    "toolchain": "compilers and apexlab",
    "wheel": "compiling Apex",
    "wheel-export": "copying the wheel",
    "runtime": "installing and checking Apex",
    "bench": "what measurements need, and checking again",
    "base": "base system",
    "devel": "compilers and the CUDA toolkit",
}
_STEP = re.compile(r"^#(\d+) \[(?:\S+ )?([\w.-]+) +(\d+)/(\d+)\] ")
_INTERNAL = re.compile(r"^#(\d+) (?:\[(internal|.* internal)\] |exporting to |importing )(.*)")
_STATE = re.compile(r"^#(\d+) (DONE|CACHED|CANCELED|ERROR)(?: ([\d.]+)s|: (.*))?")
_OUTPUT = re.compile(r"^#(\d+) (?:\d+\.\d+ ?)?(.*)")
# The driver's own progress inside the step that compiles: `  0:12 [3/13] amp_C: 3 of 17 files`.
_COMPILING = re.compile(r"^\s*\d+:\d\d (\[\d+/\d+\] .*)")
_KEPT = 400
_WORTH_A_LINE = 3.0


@dataclass
class Step:
    """One step of the build. `name` is `venv 3/4`, or what BuildKit calls it."""

    name: str
    what: str = ""
    begun: bool = False
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT))


@dataclass
class Tracker:
    """All steps so far; `failed` is the one that ended the build, `errors` BuildKit's own words
    on it, which come last."""

    steps: dict[str, Step] = field(default_factory=dict)
    failed: Step | None = None
    errors: list[str] = field(default_factory=list)

    def feed(self, line: str) -> str | None:
        """Take one line; a line for people where something moved, else None."""
        if found := _STEP.match(line):
            number, stage, index, total = found.groups()
            name = f"{stage} {index}/{total}"
            self.steps.setdefault(number, Step(name, STAGES.get(stage, "")))
            return None
        if found := _STATE.match(line):
            return self._ended(*found.groups())
        if found := _INTERNAL.match(line):
            self.steps.setdefault(found[1], Step(line.partition(" ")[2]))
            return None
        if found := _OUTPUT.match(line):
            return self._printed(self.steps.setdefault(found[1], Step("")), found[2])
        if line.startswith(("ERROR", "error:", "docker:")):
            self.errors.append(line)
        return None

    def tail(self, count: int) -> list[str]:
        """The last lines that the failed step printed."""
        lines = [line for line in self.failed.lines if line.strip()] if self.failed else []
        return lines[-count:]

    def _printed(self, step: Step, text: str) -> str | None:
        step.lines.append(text)
        if found := _COMPILING.match(text):
            return found[1]
        if step.begun or not step.what:
            return None
        step.begun = True
        return f"{step.name}: {step.what}"

    def _ended(self, number: str, state: str, seconds: str | None, words: str | None) -> str | None:
        step = self.steps.setdefault(number, Step(""))
        if state == "ERROR":
            # Steps that ran beside the failed one end as CANCELED; the first error is the cause.
            self.failed = self.failed or step
            # `process "..." did not complete` only repeats the text of the step.
            if words and not words.startswith("process "):
                step.lines.append(words)
        if state == "DONE" and step.what and seconds and float(seconds) >= _WORTH_A_LINE:
            return f"{step.name}: done in {float(seconds):.0f} s"
        return None
