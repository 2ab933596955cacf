"""A page in a real Chromium: opened, looked at by axe, and kept as a picture."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@contextlib.contextmanager
def opener(chromium):
    """Opens pages; in the end, nothing may have been asked of anyone else, nor failed."""
    with contextlib.ExitStack() as stack:
        asked, wrong = [], []

        def open_(url, **settings):
            context = chromium.new_context(**{"viewport": WIDE, "bypass_csp": False, **settings})
            stack.callback(context.close)
            page = context.new_page()
            page.on("request", lambda one: asked.append(one.url))
            page.on("pageerror", lambda one: wrong.append(str(one)))
            page.on("console", lambda one: wrong.append(one.text))
            page.goto(url)
            return page

        yield open_
        assert wrong == []
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def keep(page, name: str) -> None:
    """A screenshot to look at, where APEXLAB_SCREENSHOTS names a folder."""
    if place := os.environ.get("APEXLAB_SCREENSHOTS"):
        page.screenshot(path=Path(place) / f"{name}.png", full_page=True)


def violations(page, axe: str) -> list[str]:
    """What axe finds."""
    page.evaluate(axe)
    found = page.evaluate(
        f"axe.run({{runOnly: {{type: 'tag', values: {json.dumps(RULES)}}}}})")
    return [f"{one['id']}: {one['help']}: {node['html'][:120]}"
            for one in found["violations"] for node in one["nodes"][:3]]
