"""What the table and the details of a cell say alike. Pure."""

from __future__ import annotations

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
    """`4.21 GB`; "" for what is not known."""
    if count is None:
        return ""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= step:
            return f"{count / step:.2f} {unit}" if unit == "GB" else f"{count / step:.0f} {unit}"
    return f"{count} bytes"


def tag_of(shown: Shown) -> str:
    """The tag that people type: the first that moves, else the one that stays."""
    tags = shown.published["tags"]
    return str(next((tag["name"] for tag in tags if tag["moves"]), tags[0]["name"]))
