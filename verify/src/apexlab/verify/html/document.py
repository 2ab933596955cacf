"""The document around a page's body: it loads nothing, runs nothing but the script it is given, and
looks alike wherever it comes from. Pure."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from importlib import resources
from xml.etree import ElementTree as ET

from apexlab.verify.render import printable

_TOP = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
"""
_REST = """{head}<title>{title}</title>
<style>
{css}</style>
</head>
{body}
{script}</html>
"""


def document(title: str, body: ET.Element, css: str, script: str = "",
             head: Iterable[ET.Element] = ()) -> str:
    """The whole page. `css` comes after what all pages share; `head` are further elements there."""
    shared = resources.files("apexlab.verify.html") / "base.css"
    return _TOP.format(policy=_policy(script)) + _REST.format(
        head="".join(f"{_text(one)}\n" for one in head), title=html.escape(printable(title)),
        css=shared.read_text(encoding="utf-8") + css, body=_text(body),
        script=f"<script>{script}</script>\n" if script else "")


def _policy(script: str = "") -> str:
    """No request of any kind, and no script but this very one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = ["default-src 'none'", "style-src 'unsafe-inline'",
             *([f"script-src 'sha256-{digest}'"] if script else []),
             "img-src data:", "base-uri 'none'", "form-action 'none'"]
    return "; ".join(parts)


# How a page without a script begins. The policy comes before all else, so that whatever a page with
# this beginning has in it, a browser runs and loads nothing.
PASSIVE = _TOP.format(policy=_policy())


def _text(element: ET.Element) -> str:
    return str(ET.tostring(element, encoding="utf-8", method="html"), "utf-8")
