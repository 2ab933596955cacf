"""The JUnit form: for CI that reads nothing else, and never more comforting than the exit code."""

import runpy
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from apexlab.verify import junit
from apexlab.verify.report import Finding

MADE = runpy.run_path(str(Path(__file__).parent / "reports" / "made.py"))
EVERY = MADE["EVERY"]
# The rules of Jenkins' junit-10.xsd for what is used here: attributes (! marks those that have to
# be there) and children, in the order that stricter schemas ask for.
RULES = {
    "testsuites": ("", "testsuite*"),
    "testsuite": ("name! tests failures errors skipped time", "properties? testcase* system-out?"),
    "properties": ("", "property*"),
    "property": ("name! value!", ""),
    "testcase": ("name! classname! time", "error? failure? skipped? system-out?"),
    "error": ("type message", ""), "failure": ("type message", ""),
    "skipped": ("type message", ""), "system-out": ("", ""),
}  # fmt: skip


def check(element) -> None:
    """Fail where the element breaks a rule."""
    attributes, children = RULES[element.tag]
    words = attributes.split()
    assert set(element.attrib) <= {word.rstrip("!") for word in words}, element.attrib
    assert {word[:-1] for word in words if word.endswith("!")} <= set(element.attrib)
    order = [word.rstrip("?*") for word in children.split()]
    places = [order.index(child.tag) for child in element]
    assert places == sorted(places)
    for word in children.split():
        if word.endswith("?"):
            assert len(element.findall(word[:-1])) <= 1
    if children:
        assert not (element.text or "").strip()
    for child in element:
        check(child)


def suite(report) -> ET.Element:
    root = ET.fromstring(junit.junit(report))
    check(root)
    return root[0]


def outcome(report, name: str) -> tuple[str, str]:
    """The outcome of a testcase and its type; ("pass", "") for a pass."""
    case = next(one for one in suite(report).iter("testcase") if one.get("name") == name)
    for child in case:
        if child.tag != "system-out":
            return child.tag, child.get("type")
    return "pass", ""


@pytest.mark.parametrize("made", EVERY)
def test_it_is_valid_and_red_exactly_when_the_command_does_not_end_with_0(made):
    report = EVERY[made]()
    found = suite(report)
    cases = found.findall("testcase")
    assert int(found.get("tests")) == len(cases)
    assert len({case.get("name") for case in cases}) == len(cases)
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(found.get(kind)) == sum(case.find(tag) is not None for case in cases)
    red = int(found.get("failures")) + int(found.get("errors"))
    assert (red > 0) == (report.exit_code != 0)


def test_there_is_one_testcase_for_each_expected_extension_and_each_finding_about_the_whole():
    names = [case.get("name") for case in suite(EVERY["proven"]()).iter("testcase")]
    assert names == [*(one.name for one in EVERY["proven"]().extensions), "compiled-norms (info)"]
    optional = MADE["changed"](EVERY["proven"](), "fused_adam_cuda", expected=False)
    assert "fused_adam_cuda" not in [
        case.get("name") for case in suite(optional).iter("testcase")]


def test_each_severity_has_its_outcome():
    assert outcome(EVERY["broken"](), "amp_C") == ("failure", "wrong-numbers")
    assert outcome(EVERY["broken"](), "syncbn") == ("failure", "not-installed")
    assert outcome(EVERY["broken"](), "mlp_cuda") == ("pass", "")
    assert outcome(EVERY["fallback"](), "fused_layer_norm_cuda") == ("failure", "fallback")
    assert outcome(EVERY["two_gpus"](), "fused_layer_norm_cuda") == ("error", "instrument-blind")
    assert outcome(EVERY["nothing"](), "apex-missing") == ("failure", "apex-missing")


def test_what_could_not_be_checked_is_no_pass():
    assert outcome(EVERY["no_gpu"](), "no-gpu") == ("error", "no-gpu")
    assert outcome(EVERY["no_gpu"](), "amp_C") == ("skipped", "loaded")


def test_what_was_allowed_to_stay_unchecked_is_skipped_and_not_passed():
    allowed = replace(EVERY["no_gpu"](), exit_code=0)
    assert outcome(allowed, "no-gpu") == ("skipped", "no-gpu")
    assert outcome(allowed, "amp_C") == ("skipped", "loaded")


def test_a_broken_extension_is_red_even_if_no_finding_says_why():
    for status in ("broken", "absent"):
        report = MADE["changed"](EVERY["proven"](), "amp_C", status=status)
        assert outcome(report, "amp_C") == ("failure", status)


def test_a_finding_about_an_extension_that_was_not_asked_for_has_a_testcase():
    found = Finding("crash", "error", "extra crashes.", "Build again.", ("extra",))
    report = replace(EVERY["proven"](), findings=(found,), verdict="broken", exit_code=1)
    assert outcome(report, "crash") == ("failure", "crash")


def test_a_verdict_that_no_finding_explains_is_still_red():
    report = replace(EVERY["proven"](), findings=(), verdict="incomplete", exit_code=4)
    assert outcome(report, "verdict") == ("error", "incomplete")


def test_the_worst_of_several_findings_decides():
    found = [Finding(code, severity, "It is so.", "", ("amp_C",)) for code, severity in (
        ("jit-only", "warning"), ("instrument-blind", "incomplete"), ("crash", "error"))]
    report = MADE["changed"](EVERY["broken"](), "amp_C", findings=tuple(found))
    assert outcome(report, "amp_C") == ("failure", "wrong-numbers")
    report = replace(report, findings=())
    assert outcome(report, "amp_C") == ("failure", "crash")


def test_control_characters_are_spelt_out_since_xml_forbids_them():
    written = junit.junit(EVERY["hostile"]())
    assert all(char.isprintable() or char == "\n" for char in written)
    case = ET.fromstring(written).find(".//failure")
    assert "\\x1b[2J" in case.get("message") and "\\ud800" in case.get("message")
    assert "<script>" in case.text
