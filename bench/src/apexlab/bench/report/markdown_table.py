"""Tables in Markdown, whatever their texts hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A table; figures are aligned by whoever renders it."""
    yield f"| {' | '.join(map(cell, head))} |"
    yield f"|{'|'.join('---' for _ in head)}|"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"


def cell(text: Any) -> str:
    """A text that cannot end its cell, its line, or begin HTML, and steers no terminal."""
    shown = _CONTROL.sub("", " ".join(str(text).split()))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace("|", r"\|")


def name_of(each: Mapping[str, Any]) -> str:
    """A scenario with its label, as each table shows it."""
    label = each["label"]
    shown = f"{each['title']} ({label})" if label and label not in each["title"] else each["title"]
    return str(shown)
