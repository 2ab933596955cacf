"""Reads the output of a build line by line and knows how far it is. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BUILDING = re.compile(r"^(?:INFO:\s*)?building '([\w.]+)' extension")
_FILE = re.compile(r"^\[(\d+)/(\d+)\] ")
_AFTER = re.compile(r"^(?:INFO:\s*)?(?:installing to|running install|creating .*bdist)")


@dataclass
class Tracker:
    """The extension being built (`current`, the `index`-th of `total`), its files, and the seconds
    that each finished extension took."""

    total: int
    current: str = ""
    index: int = 0
    files_done: int = 0
    files: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = 0.0

    def feed(self, line: str, now: float) -> str | None:
        """Take one line; a plain line for people where something moved, else None."""
        if found := _BUILDING.match(line):
            self._finish(now)
            # A library for torch.ops carries its extension's name after an underscore.
            name = found[1].rpartition(".")[2].removeprefix("_")
            self.current, self.index = name, self.index + 1
            self.total = max(self.total, self.index)
            self.files_done = self.files = 0
            self._since = now
            return self.text
        if (found := _FILE.match(line)) and self.current:
            self.files_done, self.files = int(found[1]), int(found[2])
            return self.text
        if _AFTER.match(line) and self.current:
            self._finish(now)
            return self.text
        return None

    def _finish(self, now: float) -> None:
        """The current extension is done."""
        if self.current:
            self.seconds[self.current] = round(now - self._since, 1)
            self.current = ""

    @property
    def text(self) -> str:
        """`[2/13] amp_C: 3 of 17 files`."""
        if not self.current:
            return "packing"
        files = f": {self.files_done} of {self.files} files" if self.files else ""
        return f"[{self.index}/{self.total}] {self.current}{files}"
