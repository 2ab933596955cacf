"""`apexlab verify merge`: the reports of many nodes, as one judgement that hides none of them."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from apexlab.verify import errors, merge, merge_page, merge_text, render, report_file
from apexlab.verify.report import Device, Environment, schema

MADE = runpy.run_path(str(Path(__file__).parent / "reports" / "made.py"))
EVERY, HOSTILE = MADE["EVERY"], MADE["HOSTILE"]
SCRIPT = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"
HOST = "580.159.04"


@pytest.fixture
def folder(tmp_path):
    """`folder(name=report, ...)`: a folder with these reports; texts are written as they are."""

    def made(**reports) -> Path:
        place = tmp_path / "reports"
        place.mkdir(exist_ok=True)
        for name, report in reports.items():
            text = report if isinstance(report, str) else report.to_json()
            (place / f"{name}.json").write_text(text)
        return place

    return made


def apexlab(*words, **environ):
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    return subprocess.run([sys.executable, "-c", SCRIPT, "verify", *map(str, words)],
                          capture_output=True, text=True, env={**inherited, **environ})


def node(made, seconds=1.0, driver=HOST):
    """A report of one of several nodes: no two take the same time."""
    report = EVERY[made]()
    return replace(report, seconds=seconds,
                   environment=replace(report.environment, driver=driver))


def changed(report, **fields) -> str:
    return json.dumps({**report.to_dict(), **fields})


def said(merged) -> str:
    return render.shown(merge_text.lines(merged), False)


@pytest.mark.parametrize(("made", "verdict", "code"), [
    (("proven", "proven"), "proven", 0), (("proven", "static"), "ok", 0),
    (("proven", "no_gpu"), "incomplete", 4), (("no_gpu", "fallback"), "fallback", 5),
    (("fallback", "broken", "proven", "no_gpu"), "broken", 1),
])  # fmt: skip
def test_the_worst_node_decides(folder, made, verdict, code):
    place = folder(**{f"n{i}": node(one, i) for i, one in enumerate(made)})
    done = apexlab("merge", place)
    assert done.returncode == code and done.stderr == ""
    assert done.stdout.startswith(verdict.upper())
    assert all(f"\nn{i} " in done.stdout for i in range(len(made)))


@pytest.mark.parametrize("made", EVERY)
def test_a_report_comes_back_from_its_json_as_it_was(made):
    report = EVERY[made]()
    if made == "hostile":
        # Its made-up build record is of no build, and is refused for that.
        report = replace(report, record=None)
    assert report_file.parse_report(report.to_json().encode()) == report


@pytest.mark.parametrize(("text", "reason"), [
    ("", "it is empty"), (" \n", "it is empty"), ('{"schema": "apexlab.ver', "not whole"),
    ("\ud800".encode("utf-8", "surrogatepass"), "not JSON"), ("[1]", "it has no schema"),
    ("[" * 100_000, "nested"), ('{"a": NaN}', "NaN"), ('{"a": 1e999}', "not JSON"),
    ('{"verdict": "broken", "verdict": "proven"}', "says 'verdict' twice"),
    ('{"schema": "apexlab.verify-merge/1"}', "keep it in another folder"),
    ("null", "it has no schema"), ('{"verdict": "ok"}', "no schema"),
    ('{"schema": "apexlab.bench/1"}', "'apexlab.bench/1'"),
    ('{"schema": "apexlab.verify/2"}', "a newer apexlab wrote it"),
    ('{"schema": "apexlab.verify/1"}', "has no verdict"),
])  # fmt: skip
def test_what_is_no_report_is_named_and_counts_as_unchecked(folder, text, reason):
    place = folder(good=node("proven"))
    (place / "bad.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = apexlab("merge", place)
    assert done.returncode == errors.CANNOT
    assert done.stdout.startswith("INCOMPLETE   1 node: 1 proven, 1 unreadable")
    flat = " ".join(done.stdout.split())
    assert "bad.json cannot be read" in flat and reason in flat


@pytest.mark.parametrize(("fields", "reason"), [
    ({"verdict": "proven"}, "do not belong together"),
    ({"verdict": "proven", "exit_code": 0}, r"what it found \(fallback\) do not"),
    ({"exit_code": 0}, "belong together"),
    ({"verdict": "splendid"}, "do not belong together"), ({"exit_code": True}, "exit_code is not"),
    ({"extensions": {}}, "extensions is not"), ({"findings": [{"code": "x"}]}, "no severity"),
    ({"environment": None}, "environment is not"), ({"level_reached": "moon"}, "a level"),
    ({"record": {"schema": "apexlab.record/9"}}, "a newer apexlab wrote it"),
    ({"seconds": "6"}, "seconds is not"), ({"subject": ["/"]}, "subject is not"),
])  # fmt: skip
def test_a_report_that_was_changed_is_not_believed(fields, reason):
    with pytest.raises(report_file.UnreadError, match=reason):
        report_file.parse_report(changed(node("fallback"), **fields).encode())


def test_a_file_that_no_memory_should_hold_is_not_read(tmp_path):
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(report_file.UnreadError, match="larger than"):
        report_file.read_report(large)


def test_what_cannot_be_opened_is_named(folder):
    place = folder(good=node("proven"))
    (place / "gone.json").symlink_to(place / "nowhere")
    (place / "folder.json").mkdir()
    os.mkfifo(place / "pipe.json")  # which nobody writes to
    merged = merge.collect(place)
    assert [file for file, _ in merged.unread] == ["folder.json", "gone.json", "pipe.json"]
    assert all("cannot be opened" in reason for _, reason in merged.unread)
    assert merged.exit_code == errors.CANNOT


def test_a_folder_that_may_not_be_looked_into_is_named(folder):
    place = folder(good=node("proven", 1))
    (place / "rack").mkdir()
    (place / "rack" / "bad.json").write_text(node("broken", 2).to_json())
    (place / "rack").chmod(0)
    child = os.fork()  # root may look everywhere
    if child == 0:
        try:
            os.chdir(place)
            if os.geteuid() == 0:
                os.seteuid(65534)
            merged = merge.collect(Path())
            os._exit(merged.exit_code if "folder cannot be opened" in said(merged) else 99)
        finally:
            os._exit(98)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    (place / "rack").chmod(0o755)
    assert code == errors.CANNOT


def test_additions_of_a_newer_apexlab_are_passed_over(folder):
    merged = merge.collect(folder(a=changed(node("proven"), colour="blue")))
    assert merged.unread == () and merged.verdict == "proven"


def test_the_same_file_twice_is_one_node_and_is_said(folder):
    place = folder(a=node("proven"))
    (place / "b.json").write_text(json.dumps(node("proven").to_dict()))
    merged = merge.collect(place)
    assert len(merged.nodes) == 1 and merged.copies == (("b.json", "a.json"),)
    assert merged.exit_code == 0 and "b.json is a.json once more" in said(merged)


@pytest.mark.parametrize(("expected", "code", "words"), [
    (2, 0, ""), (3, 4, "2 of 3 nodes left a report"), (1, 4, "those of another run"),
])  # fmt: skip
def test_a_node_without_a_report_is_not_silent(folder, expected, code, words):
    place = folder(a=node("proven", 1), b=node("proven", 2))
    done = apexlab("merge", place, "--expect", expected)
    assert done.returncode == code and words in " ".join(done.stdout.split())


def test_a_copy_does_not_stand_in_for_the_node_that_is_lacking(folder):
    place = folder(a=node("proven"))
    shutil.copy(place / "a.json", place / "b.json")
    assert apexlab("merge", place, "--expect", 2).returncode == errors.CANNOT


def test_reports_in_folders_are_told_apart_and_unfinished_ones_left_out(folder):
    place = folder()
    for name in ("red", "blue"):
        (place / name).mkdir()
        (place / name / "node.json").write_text(node("proven", len(name)).to_json())
    (place / ".red.json").write_text("{")
    (place / "notes.txt").write_text("x")
    merged = merge.collect(place)
    assert [one.name for one in merged.nodes] == ["blue/node", "red/node"]
    assert merged.unread == ()


def test_an_empty_folder_cannot_be_merged(folder):
    done = apexlab("merge", folder())
    assert done.returncode == errors.CANNOT and done.stdout == ""
    assert "There is no report" in done.stderr and done.stderr.count("\n") == 1


def test_a_finding_is_there_once_with_its_nodes_the_gravest_first(folder):
    place = folder(a=node("fallback", 1), b=node("broken", 2), c=node("fallback", 3))
    found = merge.collect(place).findings
    assert [one.finding.severity for one in found] == ["error", "error", "fallback", "info"]
    assert found[2].nodes == found[3].nodes == ("a", "c")


def test_what_differs_between_nodes_is_said(folder):
    place = folder(a=node("proven", 1), b=node("proven", 2), c=node("proven", 3, "999.1"),
                   d=replace(node("proven", 4), record=None))
    assert [one.what for one in merge.collect(place).differences] == ["build", "driver"]
    text = " ".join(said(merge.collect(place)).split())
    assert f"differ in their driver: {HOST} on a, b, d; 999.1 on c." in text
    assert "Apex 6424da3b on a, b, c; no build record on d." in text


def test_nodes_that_are_alike_differ_in_nothing(folder):
    assert merge.collect(folder(a=node("proven", 1), b=node("proven", 2))).differences == ()


def test_the_json_follows_its_schema_and_holds_the_reports_whole(folder):
    place = folder(a=node("broken", 1), b=node("proven", 2), bad="{", c=node("no_gpu", 3, None))
    done = apexlab("merge", place, "--json", "--expect", 5)
    data = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema("merge-1")).validate(data)
    assert data["exit_code"] == done.returncode == 1
    assert [one["name"] for one in data["nodes"]] == ["a", "b", "c"]
    assert data["nodes"][1]["report"] == json.loads(node("proven", 2).to_json())
    assert data["unread"][0]["file"] == "bad.json" and "3 of 5" in data["miscounted"]


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_the_page_has_each_node_and_each_finding(folder):
    place = folder(a=node("fallback", 1), b=node("proven", 2), bad="{")
    out = place.parent / "nodes.html"
    done = apexlab("merge", place, "--html", out)
    page = Page(out.read_text())
    assert done.returncode == 5 and done.stdout.startswith("FALLBACK")
    assert page.tags.count("details") == 2 and page.tags.count("h1") == 1
    for words in ("FusedRMSNorm forward in bf16 ran without", "bad.json cannot be read",
                  "Exit code 5", "1 fallback, 1 proven, 1 unreadable"):
        assert words in page.text


def test_a_hostile_report_changes_neither_the_terminal_nor_the_page(folder):
    report = replace(EVERY["hostile"](), record=None)
    merged = merge.collect(folder(evil=report, good=node("proven")))
    assert merged.unread == () and merged.exit_code == 1
    text = said(merged)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    page = merge_page.page(merged)
    assert "script" not in Page(page).tags and "alert(1)" in Page(page).text


def test_a_file_name_is_shown_and_does_nothing(folder, tmp_path):
    place = folder()
    (place / "a\x1b[2J<script>.json").write_text(node("proven").to_json())
    (place / "\n::error::x.json").write_text("{")
    merged = merge.collect(place)
    text = said(merged)
    assert all(char == "\n" or char.isprintable() for char in text)
    assert not any(line.startswith("::") for line in text.splitlines())
    assert "script" not in Page(merge_page.page(merged)).tags


def test_many_nodes_are_counted_and_not_all_listed(folder):
    place = folder(**{f"n{i:02}": node("fallback", i) for i in range(20)})
    assert "on n00, n01, n02, n03, n04, n05 and 14 more:" in said(merge.collect(place))


def test_mixed_gpus_are_counted_per_node(folder):
    eight = tuple(Device("NVIDIA H200", "9.0") for _ in range(8))
    report = replace(node("proven"), environment=Environment(
        "3.12", "2.11.0+cu130", "13.0", HOST, eight))
    assert "8 × NVIDIA H200 (9.0)" in said(merge.collect(folder(a=report)))


@pytest.mark.parametrize("words", [
    ("--level", "load", "merge", "DIR"), ("--json", "merge", "DIR"), ("merge",),
    ("merge", "DIR/absent"), ("merge", "DIR", "DIR"), ("merge", "DIR", "--expect", "0"),
    ("merge", "DIR", "--level", "load"), ("mergee", "DIR"),
])  # fmt: skip
def test_what_means_nothing_is_a_usage_error(folder, words):
    place = str(folder(a=node("proven")))
    done = apexlab(*(word.replace("DIR", place) for word in words))
    assert done.returncode == errors.USAGE and done.stdout == ""
    assert done.stderr.startswith("apexlab: ") and done.stderr.count("\n") == 1


def test_a_page_that_cannot_be_written_keeps_no_verdict_back(folder):
    place = folder(a=node("fallback"))
    done = apexlab("merge", place, "--html", place / "absent" / "a.html")
    assert done.returncode == errors.CANNOT and "cannot be written" in done.stderr
    with Path("/dev/full").open("w") as full:
        code = subprocess.run([sys.executable, "-c", SCRIPT, "verify", "merge", place],
                              stdout=full, stderr=subprocess.DEVNULL).returncode
    assert code == errors.CANNOT


def test_verify_alone_is_still_the_plain_command(tmp_path):
    done = apexlab("--site", tmp_path, "--level", "static", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["schema"] == "apexlab.verify/1"
    help_ = apexlab("merge", "--help")
    assert help_.returncode == 0 and "--expect" in help_.stdout
