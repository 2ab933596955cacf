"""The site's folder: the page, and the files that it links to. Whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from apexlab.build.site.page import GENERATOR
from apexlab.build.site.records import PUBLISHED, REPORT, RESULT, VERIFY, Shown
from apexlab.verify.errors import UsageError

INDEX = "index.html"


def check(out: Path, records: Path | None) -> None:
    """Raise UsageError where a folder would be lost that is no site."""
    here = out.resolve()
    if records is not None and here in (records.resolve(), *records.resolve().parents):
        raise UsageError(f"The records are in {out}, which is replaced. Keep them elsewhere.")
    index = out / INDEX
    ours = index.exists() and f'content="{GENERATOR}"' in index.read_text("utf-8", "replace")
    if out.exists() and any(out.iterdir()) and not ours:
        raise UsageError(f"{out} has files in it and is no site of apexlab. Name a new folder.")


def write(out: Path, page: str, records: Path | None, shown: Mapping[str, Shown]) -> None:
    """Put the site at `out`, in place of one that is there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        (new / INDEX).write_text(page, encoding="utf-8")
        for slug, one in shown.items():
            assert records is not None  # noqa: S101 - what is shown was read from there
            names = [PUBLISHED, VERIFY, *([RESULT] if one.measured else []),
                     *([REPORT] if one.page else [])]
            (new / "records" / slug).mkdir(parents=True)
            for name in names:
                shutil.copyfile(records / slug / name, new / "records" / slug / name)
        if out.exists():
            out.rename(Path(scratch) / "old")
        new.rename(out)
