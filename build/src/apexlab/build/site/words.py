"""What the table and the details of a cell say alike. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from apexlab.build.rows import Cell
from apexlab.build.site.records import Shown

NOT_YET = "not published yet"
STAND_IN = "stand-in, not Apex"
_LEVELS = {
    "run": "Every extension ran on a GPU, by calls that were traced to its kernels and whose "
           "numbers are right",
    "load": "Every extension is there, fits this torch and loads; its kernels were not run, since "
            "there was no GPU",
}
EVIDENCE = {
    "none": "no public source says that it builds this",
    "reported": "a public source says that it builds this",
    "built": "built here and loaded", "proven": "run on a GPU",
}


@dataclass(frozen=True)
class Inside:
    """What an image is made of."""

    torch: str
    apex: str
    python: str
    system: str
    archs: str


def inside(cell: Cell, shown: Shown | None) -> Inside:
    """Of a published image what its own build record says: it may be older than the matrix. Else
    what it will be."""
    if shown is None:
        return Inside(cell.torch, cell.ref, cell.python, cell.os, " ".join(map(str, cell.archs)))
    record = shown.record
    tag = re.fullmatch(r"cp(\d)(\d+)", str(record.python.get("tag")))
    base = record.images.get("base")
    system = re.search(r"(?:ubuntu|debian)[\d.]*\d", str(base.get("name")) if
                       isinstance(base, dict) else "")
    return Inside(str(record.torch.get("version")),
                  str(record.apex.get("commit") or record.apex.get("tree") or "unknown"),
                  f"{tag[1]}.{tag[2]}" if tag else "unknown", system[0] if system else "unknown",
                  " ".join(record.archs))


def moved_on(cell: Cell, shown: Shown) -> str:
    """How the matrix differs from a published image by now, as a sentence; "" for not at all."""
    there = inside(cell, shown)
    now = [f"torch {cell.torch}"] if there.torch.partition("+")[0] != cell.torch else []
    now += [f"Apex {cell.ref[:8]}"] if not shown.stand_in and there.apex != cell.ref else []
    return f"The next image of this cell will have {' and '.join(now)}." if now else ""


def in_short(shown: Shown) -> str:
    """`proven on NVIDIA H200 (9.0)`"""
    report = shown.verified
    gpus = ", ".join(dict.fromkeys(report.gpus))
    return f"{report.verdict}: run on {gpus}" if report.level == "run" else \
        f"{report.verdict}: loaded, not run"


def proven(shown: Shown) -> str:
    """What the report proves, as a sentence."""
    return f"{_LEVELS[shown.verified.level]}."


def size(count: int | None) -> str:
    """`4.21 GB`; "" for what is not known, or cannot be."""
    if count is None or not 0 < count < 10**15:
        return ""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= step:
            return f"{count / step:.2f} {unit}" if unit == "GB" else f"{count / step:.0f} {unit}"
    return f"{count} bytes"


def tag_of(shown: Shown) -> str:
    """The tag that people type: the first that moves, else the one that stays."""
    tags = shown.published["tags"]
    return str(next((tag["name"] for tag in tags if tag["moves"]), tags[0]["name"]))
