"""The site's folder: the page, and the files that it links to. Whole or not at all."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from apexlab.build.site.page import GENERATOR
from apexlab.build.site.records import PUBLISHED, REPORT, RESULT, VERIFY, Shown
from apexlab.verify.errors import UsageError

INDEX, RECORDS = "index.html", "records"
_OURS = re.compile(rf"{INDEX}|{RECORDS}/[^/]+/(?:{PUBLISHED}|{VERIFY}|{RESULT}|{REPORT})")


def check(out: Path, records: Path | None) -> None:
    """Raise UsageError where something would be lost that is no site."""
    here = out.resolve()
    if records is not None and here in (records.resolve(), *records.resolve().parents):
        raise UsageError(f"The records are in {out}, which is replaced. Keep them elsewhere.")
    if not here.exists() or not any(here.iterdir()):
        return
    index = here / INDEX
    if not (index.is_file() and f'content="{GENERATOR}"' in index.read_text("utf-8", "replace")):
        raise UsageError(f"{out} has files in it and is no site of apexlab. Name a new folder.")
    names = (str(one.relative_to(here)) for one in sorted(here.rglob("*")) if not one.is_dir())
    if foreign := next((name for name in names if not _OURS.fullmatch(name)), ""):
        raise UsageError(f"{out} is replaced as a whole, and {foreign} in it was not written by "
                         "`apexlab site`. Move it away, or name a new folder.")


def write(out: Path, page: str, shown: Mapping[str, Shown]) -> None:
    """Put the site at `out`, in place of one that is there. Where `out` is a link, it stays one."""
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        new, old = Path(scratch) / "new", Path(scratch) / "old"
        new.mkdir()
        (new / INDEX).write_text(page, encoding="utf-8")
        for slug, one in shown.items():
            (new / RECORDS / slug).mkdir(parents=True)
            for name, text in one.files().items():
                (new / RECORDS / slug / name).write_text(text, encoding="utf-8")
        if not out.exists():
            new.rename(out)
            return
        out.rename(old)
        try:
            new.rename(out)
        except BaseException:
            old.rename(out)
            raise
