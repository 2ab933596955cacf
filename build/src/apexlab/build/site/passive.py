"""A page that is served beside ours, and was not written just now: it may neither run nor load
anything.

What holds is the policy at its top, which a browser obeys from there on, whatever follows. Reading
the rest finds what no policy forbids, and says so before anybody sees it.
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from apexlab.build.errors import RefusedError
from apexlab.verify.errors import CannotError
from apexlab.verify.html.document import PASSIVE

MOST = 16 << 20  # bytes; a report of all scenarios has one and a half million
_AGAIN = "Write it again with `apexlab bench report`."


def read(path: Path) -> str:
    """The page in a file. Raises RefusedError, CannotError."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST + 1)
    except OSError as error:
        raise CannotError(f"{path} cannot be read: {error.strerror}. {_AGAIN}") from error
    text = raw.decode("utf-8", errors="replace")
    if len(raw) > MOST:
        raise RefusedError(f"{path} has more than {MOST >> 20} MB. {_AGAIN}")
    if not text.startswith(PASSIVE):
        raise RefusedError(f"{path} does not begin like a report of `apexlab bench`, with the "
                           f"policy that keeps it from running or loading anything. {_AGAIN}")
    parser = _Reader()
    parser.feed(text)
    if parser.found:
        raise RefusedError(f"{path} has {parser.found} in it, which no report of `apexlab bench` "
                           f"has. {_AGAIN}")
    return text


class _Reader(HTMLParser):
    """Remembers the first thing in a page that would run, load or lead somewhere else."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "form", "base", "link"):
            self.found = self.found or f"<{tag}>"
        if tag == "meta" and "refresh" in str(dict(attrs).get("http-equiv")).lower():
            self.found = self.found or "<meta refresh>"
        for name, value in attrs:
            away = name in ("src", "href", "xlink:href") and not (value or "").startswith("#")
            if name.startswith("on") or away:
                self.found = self.found or f"<{tag} {name}>"
