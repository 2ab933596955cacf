"""What GitHub Actions gets: annotations that are escaped and counted, a summary that fits."""

import html
import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from apexlab.verify import github
from apexlab.verify.report import Finding

MADE = runpy.run_path(str(Path(__file__).parent / "reports" / "made.py"))
EVERY = MADE["EVERY"]
COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)")


def commands(report) -> list[tuple[str, str, str]]:
    """Kind, title and text, as the runner reads them."""
    found = []
    for line in github.workflow_commands(report).splitlines():
        kind, title, text = COMMAND.fullmatch(line).groups()
        for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            title, text = title.replace(code, char), text.replace(code, char)
        found.append((kind, title, text))
    return found


def of(*findings: tuple[str, str], code: int = 1):
    return replace(EVERY["proven"](), exit_code=code, findings=tuple(
        Finding(name, severity, f"About {name}.", f"Mend {name}.") for name, severity in findings))


def test_each_severity_has_its_annotation():
    assert commands(of(("crash", "error"), ("fallback", "fallback"), ("no-gpu", "incomplete"),
                       ("jit-only", "warning"), ("no-record", "info"))) == [
        ("error", "apexlab verify: crash", "About crash.\nfix: Mend crash."),
        ("error", "apexlab verify: fallback", "About fallback.\nfix: Mend fallback."),
        ("error", "apexlab verify: no-gpu", "About no-gpu.\nfix: Mend no-gpu."),
        ("warning", "apexlab verify: jit-only", "About jit-only.\nfix: Mend jit-only."),
        ("notice", "apexlab verify: no-record", "About no-record.\nfix: Mend no-record."),
    ]


def test_what_was_allowed_to_stay_unchecked_is_a_warning():
    assert commands(of(("no-gpu", "incomplete"), code=0))[0][0] == "warning"


@pytest.mark.parametrize(("count", "shown"), [(9, 9), (10, 10), (11, 10), (40, 10)])
def test_ten_of_a_kind_are_the_most_and_the_rest_is_summed_up(count, shown):
    found = commands(of(*((f"e{n}", "error") for n in range(count)), ("w", "warning")))
    errors = [one for one in found if one[0] == "error"]
    assert len(errors) == shown and len(found) == shown + 1
    if count > 10:
        assert errors[-1][1] == f"apexlab verify: {count - 9} more"
        assert all(f"e{n}" in errors[-1][2] for n in range(9, count))


def test_a_hostile_text_stays_inside_its_annotation():
    text = "100%\r\n::set-env name=A::b %0A, ::error::"
    report = replace(of(), findings=(Finding(f"a,b:c{text}", "error", text, text),))
    written = github.workflow_commands(report)
    assert written.count("\n") == 1 and "\r" not in written
    (kind, title, said), = commands(report)
    assert kind == "error" and title.startswith("apexlab verify: a,b:c100%")
    assert said == "100%\\r\\n::set-env name=A::b %0A, ::error::\nfix: " + said.split("fix: ")[1]
    for made in EVERY.values():
        commands(made())


@pytest.mark.parametrize("made", EVERY)
def test_the_summary_has_the_verdict_every_extension_and_every_finding(made):
    report = EVERY[made]()
    written = github.step_summary(report, github.SUMMARY_BYTES)
    assert written.startswith(f"### apexlab verify: {report.verdict.upper()}\n")
    rows = [line for line in written.splitlines() if line.startswith("| <code>")]
    assert len(rows) == len(report.extensions)
    for row, one in zip(rows, report.extensions, strict=True):
        assert row.count("|") == 5
        assert html.unescape(row).startswith(f"| <code>{github.printable(one.name)}</code> | ")
    assert written.count("\n- **") == len(report.findings)


def test_markdown_and_html_of_a_hostile_name_mark_up_nothing():
    written = github.step_summary(EVERY["hostile"](), github.SUMMARY_BYTES)
    assert set(re.findall(r"</?[a-z]+", written)) <= {"<code", "</code", "<br"}
    for part in ("`", "::", "|1", "_&", "](", "\x1b", "\r"):
        assert part not in written
    assert github.escaped("[a](http://b) *c* _d_ @e #1 $f$") == (
        "&#91;a&#93;(http&#58;//b) &#42;c&#42; &#95;d&#95; &#64;e &#35;1 &#36;f&#36;")


def test_a_summary_without_room_says_less_and_never_half():
    report = EVERY["broken"]()
    whole = github.step_summary(report, github.SUMMARY_BYTES)
    for room in (len(whole.encode()) - 1, 1000, 400, 100, 0, -5):
        part = github.step_summary(report, room)
        assert len(part.encode()) <= max(room, 0)
        assert not part or part.startswith("### apexlab verify: BROKEN\n\nFusedAdam step in fp32")
        assert part == "" or "too long for this page" in part


def test_a_model_is_named_in_the_summary():
    assert "train&#58;factory on cuda&#58;0&#58; 19.2 % of the GPU time" in github.step_summary(
        EVERY["with_model"](), github.SUMMARY_BYTES)
