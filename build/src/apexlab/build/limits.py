"""What this machine lets a build use: memory and cores, through cgroups of both versions.

`docker build` shows the host's memory inside, and a limit set on a parent group is visible only in
version 1's memory.stat; so every place is read and the smallest number wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apexlab.verify.errors import UsageError

GIB = 1024**3
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": GIB, "t": 1024**4}


@dataclass(frozen=True)
class Limit:
    """The memory a build may use, in bytes, and where that number was read."""

    bytes: int
    source: str


def parse_size(text: str) -> int:
    """Bytes in `6G`, `6GiB`, `6000m` or a plain number. Raises UsageError for anything else."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found or float(found[1]) == 0:
        raise UsageError(f"{text!r} is not an amount of memory. Write it as 6G, 6GiB or 6000M.")
    return int(float(found[1]) * _UNITS[found[2]])


def memory_limit(
    asked: int | None = None, cgroup: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")
) -> Limit:
    """The smallest of all limits that hold here, and of `asked` (bytes)."""
    found = list(_memory_limits(cgroup, proc))
    if asked is not None:
        found.append(Limit(asked, "--memory"))
    if not found:
        # Nothing readable: a build with one job is better than none.
        return Limit(2 * GIB, "assumed, since no limit could be read")
    return min(found, key=lambda limit: limit.bytes)


def cores(cgroup: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> int:
    """How many cores a build may keep busy: the affinity mask and the groups' CPU quota."""
    count = len(os.sched_getaffinity(0))
    for folder in _own_groups(cgroup, proc, ""):
        words = _read(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit():
            count = min(count, _whole(int(words[0]), int(words[1])))
    for folder in _own_groups(cgroup / "cpu", proc, "cpu"):
        quota = _number(folder / "cpu.cfs_quota_us")
        period = _number(folder / "cpu.cfs_period_us")
        if quota and period:
            count = min(count, _whole(quota, period))
    return max(1, count)


def _whole(quota: int, period: int) -> int:
    return max(1, -(-quota // period))


def _memory_limits(cgroup: Path, proc: Path) -> Iterator[Limit]:
    if found := re.search(r"^MemTotal:\s+(\d+) kB", _read(proc / "meminfo"), re.MULTILINE):
        yield Limit(int(found[1]) * 1024, "MemTotal")
    for folder in _own_groups(cgroup, proc, ""):
        if value := _number(folder / "memory.max"):
            yield Limit(value, f"{folder}/memory.max")
    for folder in _own_groups(cgroup / "memory", proc, "memory"):
        if value := _number(folder / "memory.limit_in_bytes"):
            yield Limit(value, f"{folder}/memory.limit_in_bytes")
        stat = _read(folder / "memory.stat")
        if found := re.search(r"^hierarchical_memory_limit (\d+)", stat, re.MULTILINE):
            yield Limit(int(found[1]), f"{folder}/memory.stat (hierarchical_memory_limit)")


def _own_groups(root: Path, proc: Path, controller: str) -> Iterator[Path]:
    """Our own group's folder and its parents up to `root`; just `root` inside most containers.

    A container without its own cgroup namespace sees the host's path in /proc/self/cgroup, which
    does not exist below its mount: such steps are skipped.
    """
    path = ""
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, names, here = [*line.split(":", 2), "", ""][:3]
        if controller in names.split(","):
            path = here.strip("/")
    folder = root / path if path else root
    for candidate in (folder, *folder.parents):
        if candidate.is_dir():
            yield candidate
        if candidate == root:
            return


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """The positive number in a file; None for "max", -1, an absent file."""
    text = _read(path).strip()
    return int(text) if text.isdigit() and int(text) > 0 else None
