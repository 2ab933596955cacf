"""What is taken from a folder of records, and what stops the whole site."""

from __future__ import annotations

import json
import os

import made_records as made
import pytest

from apexlab.build.errors import RefusedError
from apexlab.build.matrix import load
from apexlab.build.site import records
from apexlab.verify.errors import CannotError, UsageError


def read(folder, demo=False):
    return records.read(folder, load(), demo)


def test_a_complete_folder_is_read(tmp_path):
    shown, left = read(made.put(tmp_path, result=made.bench("apex")))
    assert list(shown) == [made.SLUG] and left == ()
    one = shown[made.SLUG]
    assert one.verified.level == "run" and one.measured is not None and one.page
    assert not one.stand_in


def test_the_benchmark_may_be_missing(tmp_path):
    shown, _ = read(made.put(tmp_path))
    assert shown[made.SLUG].measured is None and not shown[made.SLUG].page


def test_a_folder_without_published_json_is_no_published_cell(tmp_path):
    (tmp_path / "torch2.4-cuda12.4").mkdir()
    assert read(tmp_path) == ({}, ())


def test_a_stand_in_is_left_out_and_named_but_for_a_demonstration(tmp_path):
    folder = made.put(tmp_path, made.report("standin"))
    assert read(folder) == ({}, (made.SLUG,))
    shown, left = read(folder, demo=True)
    assert shown[made.SLUG].stand_in and left == ()


OTHER = "sha256:" + "cd" * 32
GOOD = made.report()


@pytest.mark.parametrize(("report", "said", "result", "names"), [
    ({**GOOD, "image": OTHER}, {}, None, "was made in"),
    (GOOD, {"record": OTHER}, None, "another build record"),
    (GOOD, {"digest": OTHER}, None, "was made in"),
    (GOOD, {"cell": "torch2.4-cuda12.4"}, None, "is of torch2.4-cuda12.4"),
    (GOOD, {"level": "load"}, None, "level run"),
    (GOOD, {"source": "standin"}, None, "what was compiled"),
    (made.report("standin"), {"source": "apex"}, None, "what was compiled"),
    ({**GOOD, "verdict": "fallback", "exit_code": 5}, {}, None, "says fallback"),
    (GOOD, {}, made.bench("standin"), "another build"),
    (GOOD, {}, made.bench("apex", state="partial"), "not complete"),
    (GOOD, {"tags": []}, None, "tags"),
    (GOOD, {"tags": [{"name": "a\n", "moves": True}]}, None, "tags"),
    (GOOD, {"schema": "apexlab.published/9"}, None, "schema"),
    (GOOD, {"digest": "sha256:1"}, None, "digest"),
])
def test_files_that_do_not_belong_together_stop_the_site(tmp_path, report, said, result, names):
    folder = made.put(tmp_path, report, made.published(report, **said), result)
    with pytest.raises(RefusedError, match=names):
        read(folder, demo=True)


def test_a_report_of_another_torch_stops_the_site(tmp_path):
    folder = made.put(tmp_path, slug="torch2.10-cuda13.0",
                      said=made.published(GOOD, cell="torch2.10-cuda13.0"))
    with pytest.raises(RefusedError, match=r"saw torch 2\.11\.0"):
        read(folder)


def test_a_folder_that_is_no_cell_stops_the_site(tmp_path):
    with pytest.raises(RefusedError, match="no cell"):
        read(made.put(tmp_path, slug="torch9.9-cuda1.0"))


def test_a_name_that_is_no_image_stops_the_site(tmp_path):
    folder = made.put(tmp_path, said=made.published(GOOD, image="x; rm -rf ~"))
    with pytest.raises(UsageError, match="not the name of an image"):
        read(folder)


def test_a_missing_report_is_said(tmp_path):
    (made.put(tmp_path) / made.SLUG / "verify.json").unlink()
    with pytest.raises(CannotError, match=r"verify\.json cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize("text", [
    "<p>x</p><script>alert(1)</script>", "<img src=x>", "<p onclick='x'>y</p>",
    "<a href='javascript:alert(1)'>z</a>", "<iframe></iframe>",
    "<svg><use xlink:href='//x'/></svg>",
    "<meta http-equiv=refresh content='0;url=//x'>",
])
def test_a_page_of_the_benchmark_that_runs_or_loads_something_stops_the_site(tmp_path, text):
    folder = made.put(tmp_path, result=made.bench("apex"), text=text)
    with pytest.raises(RefusedError, match=r"report\.html has"):
        read(folder)


def test_a_page_of_the_benchmark_without_the_policy_at_its_top_stops_the_site(tmp_path):
    # A reader of HTML and a browser may disagree on what runs; the policy leaves that open to none.
    folder = made.put(tmp_path, result=made.bench("apex"))
    page = folder / made.SLUG / "report.html"
    for text in ("<p>x", "\n" + page.read_text(), page.read_text().replace("'none'", "*")):
        page.write_text(text)
        with pytest.raises(RefusedError, match="does not begin like a report"):
            read(folder)


# -- what somebody else may have put there


FILES = ("published.json", "verify.json", "result.json", "report.html")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("broken", [False, True])
def test_a_link_is_never_followed_onto_the_site(tmp_path, name, broken):
    folder = made.put(tmp_path / "records", result=made.bench("apex"), text="<p>")
    path = folder / made.SLUG / name
    path.rename(tmp_path / name)
    path.symlink_to(tmp_path / ("nothing" if broken else name))
    with pytest.raises(RefusedError, match="is a link"):
        read(folder)


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_not_opened(tmp_path, name):
    folder = made.put(tmp_path, result=made.bench("apex"), text="<p>")
    (folder / made.SLUG / name).unlink()
    os.mkfifo(folder / made.SLUG / name)  # to open it would wait for ever
    with pytest.raises(RefusedError, match="or no file"):
        read(folder)


@pytest.mark.parametrize(("report", "said", "names"), [
    ({**GOOD, "schema": "apexlab.verify/2"}, {}, "no report of `apexlab verify`"),
    ({key: value for key, value in GOOD.items() if key != "extensions"}, {}, "extensions"),
    ({**GOOD, "record": None}, {}, "another build record"),
    (GOOD, {"bytes": 9 * 10**15}, "bytes"), (GOOD, {"bytes": True}, "bytes"),
    (GOOD, {"created": "x" * 501}, "created"), (GOOD, {"trust": {}}, "trust"),
])
def test_a_document_of_another_shape_stops_the_site(tmp_path, report, said, names):
    folder = made.put(tmp_path, report, made.published(GOOD, **said))
    with pytest.raises(RefusedError, match=names):
        read(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", "\ud800", "[" * 100_000, '{"a": NaN}'])
@pytest.mark.parametrize("name", FILES[:3])
def test_what_is_no_document_stops_the_site(tmp_path, name, text):
    folder = made.put(tmp_path, result=made.bench("apex"), text="<p>")
    (folder / made.SLUG / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(RefusedError, match=r"is no report|not what"):
        read(folder)


def test_the_record_of_another_version_stops_the_site(tmp_path):
    report = {**GOOD, "record": {**GOOD["record"], "schema": "apexlab.record/2"}}
    with pytest.raises(CannotError, match="newer apexlab"):
        read(made.put(tmp_path, report, made.published(GOOD)))


def test_what_is_written_down_is_read_as_the_same(tmp_path):
    one = read(made.put(tmp_path / "a", result=made.bench("apex"), text="<p>"))[0][made.SLUG]
    (tmp_path / "b" / made.SLUG).mkdir(parents=True)
    for name, text in one.files().items():
        (tmp_path / "b" / made.SLUG / name).write_text(text)
    again = read(tmp_path / "b")[0][made.SLUG]
    assert json.loads(json.dumps(again.files())) == one.files() and set(one.files()) == set(FILES)
