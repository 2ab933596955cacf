"""JSON that all readers read alike, whatever language they are written in. Pure."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """What `text` says. Raises ValueError where another reader might see something else: a name
    that is in one object twice (for Go `layers` and `Layers` are one), and what is no number of
    JSON's; where a number is rounded by others; and where it is nested too deeply to be
    worked with."""
    try:
        text = text if isinstance(text, str) else text.decode()  # json would take UTF-16, too
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number,
                           parse_int=_exact)
        json.dumps(found, allow_nan=False)  # 1e999 is a number for Python
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name.casefold() for name, _ in pairs}) < len(pairs):
        names = [name.casefold() for name, _ in pairs]
        twice = next(name for name, _ in pairs if names.count(name.casefold()) > 1)
        raise ValueError(f"it says {twice!r} twice")
    return dict(pairs)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _exact(text: str) -> int:
    number = int(text)
    if abs(number) > 1 << 53:
        raise ValueError(f"{text[:30]} is a number that others round")
    return number
