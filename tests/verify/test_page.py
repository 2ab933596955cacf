"""The HTML page: complete, of one piece, and blind to what hostile names want of it."""

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import pytest

from apexlab.verify import page, summary
from apexlab.verify.render import printable

MADE = runpy.run_path(str(Path(__file__).parent / "reports" / "made.py"))
EVERY = MADE["EVERY"]
VOID = {"meta", "br", "link", "img", "input", "hr"}
# All that the page is made of. Anything else came from a name.
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "p", "a",
    "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "code", "details", "summary",
    "ul", "li", "section", "span", "pre", "footer", "div",
}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "data-label", "href",
              "id", "scope", "role", "tabindex", "aria-label"}


class Page(HTMLParser):
    """What a reader of the page sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.open, self.texts = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def shown(text: str) -> str:
    return " ".join(printable(text).split())


@pytest.mark.parametrize("made", EVERY)
def test_every_finding_extension_and_proof_is_on_the_page(made):
    report = EVERY[made]()
    seen = Page(page.page(report))
    assert seen.open == []
    assert seen.text.index(report.verdict) < seen.text.index(shown(summary.headline(report)))
    for found in report.findings:
        for part in (found.code, found.message, found.fix, found.severity):
            assert shown(part) in seen.text
    for one in report.extensions:
        for part in (one.name, one.status, one.why, one.path or "", one.sha256 or ""):
            assert shown(part) in seen.text
        for proof in one.proofs:
            assert shown(proof.api) in seen.text and shown(proof.message) in seen.text
            assert all(shown(kernel.name) in seen.text for kernel in proof.kernels)
    if report.record is not None:
        assert shown(report.record.toolkit["nvcc"]) in seen.text


@pytest.mark.parametrize("made", EVERY)
def test_it_needs_nothing_from_outside_and_no_script(made):
    text = page.page(EVERY[made]())
    seen = Page(text)
    assert set(seen.tags) <= TAGS
    assert {name for name, _ in seen.attributes} <= ATTRIBUTES
    assert {value for name, value in seen.attributes if name == "href"} <= {"#findings"}
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style and "@import" not in style
    assert "default-src 'none'" in text


def test_hostile_names_are_text_and_nothing_else():
    text = page.page(EVERY["hostile"]())
    assert "<script" not in text and "alert(1)" in text
    assert all(char.isprintable() or char == "\n" for char in text)
    assert text.encode()


def test_it_is_made_for_light_and_dark_for_a_phone_and_for_paper():
    text = page.page(EVERY["proven"]())
    for part in ("prefers-color-scheme: dark", "max-width: 44rem", "@media print",
                 'name="viewport"'):
        assert part in text
    assert all(label for name, label in Page(text).attributes if name == "data-label")


def test_what_is_not_proven_is_not_painted_as_good():
    rows = page.page(EVERY["two_gpus"]()).split("<tr>")
    row = next(one for one in rows if ">fused_layer_norm_cuda<" in one)
    assert '"mid brief"' in row.replace("status ", "") and "good" not in row


def test_each_verdict_has_its_colour():
    for made, colour in (("proven", "good"), ("static", "good"), ("fallback", "mid"),
                         ("no_gpu", "mid"), ("broken", "bad")):
        assert f'<header class="verdict {colour}">' in page.page(EVERY[made]())


def test_the_model_is_on_the_page():
    seen = Page(page.page(EVERY["with_model"]())).text
    assert "train:factory on cuda:0: 19.2 % of the GPU time in Apex's kernels." in seen
    assert "transformers.models.t5.modeling_t5.T5LayerNorm norm 1 not Apex" in seen
    assert "Your model" not in Page(page.page(EVERY["proven"]())).text
