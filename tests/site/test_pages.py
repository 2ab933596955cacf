"""The other pages of apexlab, which share their pieces with the site, in a real Chromium."""

from __future__ import annotations

import json
import runpy

import made_records as made
import pytest
from looks import PHONE, WIDE, keep, opener, violations

from apexlab.bench.report.page.page import page as bench_page
from apexlab.verify import merge, merge_page
from apexlab.verify.html.document import PASSIVE
from apexlab.verify.page import page as verify_page

pytestmark = pytest.mark.browser
REPORTS = made.ROOT / "tests" / "verify" / "reports"
MEASURED = made.ROOT / "tests" / "bench" / "measured"
NAMES = ("proven", "broken", "merged", "train", "ops")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """name → address of a page of each kind, made from measured results where there are such."""
    home = tmp_path_factory.mktemp("pages")
    every = runpy.run_path(str(REPORTS / "made.py"))["EVERY"]
    nodes = home / "nodes"
    nodes.mkdir()
    for name in ("proven", "fallback"):
        text = (REPORTS / f"h200-{name}.json").read_text()
        (nodes / f"node-{name}.json").write_text(text)
    measured = {name: json.loads((MEASURED / f"h200-{name}.json").read_text())
                for name in ("train", "ops")}
    texts = {"proven": verify_page(every["h200-proven"]()),
             "broken": verify_page(every["broken"]()),
             "merged": merge_page.page(merge.collect(nodes)),
             **{name: bench_page(one) for name, one in measured.items()}}
    for name, text in texts.items():
        (home / f"{name}.html").write_text(text)
    return {name: (home / f"{name}.html").as_uri() for name in texts}


@pytest.fixture
def visit(chromium, pages):
    with opener(chromium) as open_:
        yield lambda name, **settings: open_(pages[name], **settings)


@pytest.mark.parametrize("view", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing(visit, axe, name, scheme, view):
    page = visit(name, color_scheme=scheme, viewport=view)
    keep(page, f"{name}-{scheme}-{view['width']}")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = 1")
    assert violations(page, axe) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [320, 360, 640, 900])
def test_it_scrolls_down_and_not_sideways(visit, name, width):
    page = visit(name, viewport={"width": width, "height": 740})
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = 1")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    keep(page, f"{name}-{width}")


@pytest.mark.parametrize("name", NAMES)
def test_paper_is_white_whatever_the_screen_is(visit, name):
    page = visit(name, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    keep(page, f"{name}-print")


# Readers of HTML differ in where a comment ends, and so in what they take for a script.
HOSTILE = """<title>quiet</title></head><body><!-- --!><script>document.title = "ran"</script>-->
<img src=x onerror="document.title = 'ran'"><svg onload="document.title = 'ran'"></svg>
<iframe srcdoc="<script>parent.document.title = 'ran'</script>"></iframe>
<style>@import "http://127.0.0.1:1/x.css"; body { background: url(http://127.0.0.1:1/x) }</style>
<meta http-equiv="Content-Security-Policy" content="default-src * 'unsafe-inline'">
<script>document.title = "ran"</script></body></html>"""


@pytest.mark.parametrize("policy", [True, False])
def test_under_the_policy_at_its_top_a_page_runs_and_loads_nothing(chromium, tmp_path, policy):
    file = tmp_path / "page.html"
    file.write_text((PASSIVE if policy else "<!DOCTYPE html><html><head>") + HOSTILE)
    context, failed = chromium.new_context(), []
    page = context.new_page()
    page.on("requestfailed", lambda one: failed.append(one.failure))
    page.goto(file.as_uri())
    page.wait_for_timeout(200)
    title = page.title()
    context.close()
    assert title == ("quiet" if policy else "ran")
    assert set(failed) <= {"csp"} if policy else "net::ERR_UNSAFE_PORT" in failed
