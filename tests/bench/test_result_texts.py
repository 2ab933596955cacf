"""A result in Markdown, on the terminal, and as a table of points."""

import csv
import io
import json
import re

import made_ops
import made_result as made
import pytest

from apexlab.bench.report.markdown import markdown
from apexlab.bench.report.markdown_table import cell
from apexlab.bench.report.tables import HEAD, csv_text
from apexlab.bench.report.terminal import summary, unfinished
from apexlab.bench.result.warn import warnings

MADE = {"all": {}, "stand-in": {"label": "stand-in"}, "none": {"label": None},
        "cpu": {"label": None, "device": "cpu"}, "one": {"ladder": "classic", "rounds": 1},
        "nothing": {"ladder": "classic", "finished": 0}, "gpus": {"ladder": "classic", "gpus": 2}}


@pytest.fixture(scope="module")
def results():
    made_up = {name: made.result(**given) for name, given in MADE.items()}
    return {**made_up, "awkward": made.awkward(), "ops": made_ops.result(),
            "ops-cpu": made_ops.result(label=None, device="cpu"),
            "ops-stand-in": made_ops.result(label="stand-in")}


def about_a_stand_in(text):
    """The lines in which a figure could be taken for Apex's; two remarks are of Apex as such."""
    for remark in ("A compiled model does not run Apex's norm modules",
                   "so nothing is said of Apex"):
        text = text.replace(remark, "")
    return [line for line in text.splitlines() if re.search(r"apex", line, re.IGNORECASE)
            and re.search(r"\d", line) and "apexlab" not in line]


# -- Markdown


def test_markdown_says_the_answer_first(results):
    lines = markdown(results["all"]).splitlines()
    assert lines[0] == "# apexlab bench: training"
    assert lines[2] == f"**{results['all']['headline']}**"


def test_markdown_has_every_scenario_with_its_interval_and_verdict(results):
    text = markdown(results["all"])
    for each in results["all"]["scenarios"]:
        assert f"| {each['title']}" in text
    assert re.search(r"\| torch-amp-fp16 \|.*5\.7\d× \| 5\.\d\d× to 5\.\d\d× \| FAST \|", text)


def test_markdown_tables_are_whole(results):
    for result in results.values():
        width = 0
        for line in markdown(result).splitlines():
            bars = len(re.findall(r"(?<!\\)\|", line))
            if not line.startswith("|"):
                width = 0
            elif not width:
                width = bars
            else:
                assert bars == width, line


def test_markdown_has_reasons_for_what_was_not_measured(results):
    text = markdown(results["awkward"])
    assert "| torch-fused-amp-bf16-graph | failed | out of memory" in text
    assert "| torch-tf32 | not available |" in text


def test_markdown_has_parity_proof_environment_settings_and_method(results):
    text = markdown(results["all"])
    for title in ("Do they train alike?", "Whose kernels ran", "What really ran",
                  "The longest kernels of a step", "The GPU while it was measured", "Where",
                  "Settings", "How it was measured"):
        assert f"## {title}" in text
    assert "3 launches of amp_C (interposer)" in text
    assert results["all"]["configuration_hash"] in text


def test_markdown_shows_what_is_claimed_of_a_scenario_beside_what_it_did(results):
    assert re.search(r"^\| apex-amp-fp16 \(Apex\) \| 1\.8 to 3\.0× \| 5\.\d+× \|$",
                     markdown(results["all"]), re.MULTILINE)
    assert "1.8 to 3.0×" not in markdown(results["stand-in"])


def test_markdown_shows_a_speed_over_tf32_where_it_was_measured(results):
    row = next(line for line in markdown(results["all"]).splitlines()
               if line.startswith("| torch-amp-bf16 |"))
    assert re.search(r"\| FAST \| 2\.0\d× \|", row)


def test_markdown_has_the_times_of_each_rank(results):
    row = next(line for line in markdown(results["gpus"]).splitlines() if "95.0 %" in line
               and line.startswith("| torch-amp-fp16"))
    assert re.search(r"\| 1 \| 5\d\.\d+, 5\d\.\d+ \|$", row)


def test_a_name_from_outside_ends_no_cell():
    assert cell("a|b\nc<script>&") == r"a\|b c&lt;script>&amp;"


# -- the terminal


def test_the_terminal_has_each_answer_on_a_line(results):
    text = summary(results["all"], False)
    assert re.search(r"^torch\.compile +\+3\d\.\d %  FAST +use it$", text, re.MULTILINE)
    assert re.search(r"^Apex's norm \(BF16 autocast\) +-5\.\d %  SLOW +leave it out here$", text,
                     re.MULTILINE)
    lines = text.splitlines()
    above = lines[:lines.index("")]
    assert results["all"]["headline"].startswith(above[0])  # the answer, then what it holds for
    assert "noise ±0" in above[-1]


def test_on_a_cpu_the_first_line_says_that_apex_needs_a_gpu():
    text = summary(made.result(label=None, device="cpu", ladder="classic"), False)
    assert "Apex needs a GPU, so nothing is said of it" in text.split("\n\n")[0]


def test_a_single_scenario_on_a_cpu_is_told_what_can_be_compared_there():
    for ladder, told in (("classic", True), ("modern", False)):
        result = made.result(label=None, device="cpu", ladder=ladder)
        assert any("--ladder modern" in each for each in warnings(result, [])) == told


def test_the_terminal_names_together_what_lacks_the_same():
    here = {"kind": "train", "scenarios": [
        {"title": "a", "state": "not-available", "why": "Apex is not available on a CPU."},
        {"title": "b", "state": "measured", "why": ""},
        {"title": "c", "state": "failed", "why": "out of memory."},
        {"title": "d", "state": "not-available", "why": "Apex is not available on a CPU."}]}
    assert unfinished(here) == [
        ("not available", ["a", "d"], "Apex is not available on a CPU."),
        ("failed", ["c"], "out of memory.")]


def test_what_was_not_asked_is_one_line_and_the_last_of_the_answers():
    for label in ("Apex", "stand-in"):
        result = made.result(label=label, ladder="classic")
        for text in (summary(result, False), markdown(result)):
            whole = " ".join(text.split())
            assert whole.count("bench train --ladder modern` compares them.") == 1
            assert "torch.compile: not asked in this run" in whole
            assert whole.index("use torch.amp.") < whole.index("not asked in this run")
    assert "(BF16); the stand-in's norm (BF16 autocast); torch.compile: not asked" in whole


def test_every_text_writes_a_ratio_in_the_same_way(results):
    for result in results.values():
        for text in (summary(result, False), markdown(result)):
            assert not re.search(r"\d\.\d+x\b", text)
    speed = results["all"]["scenarios"][1]["speedup"]["ratio"]
    assert f"{speed:.2f}×" in results["all"]["headline"]
    assert summary(results["all"], False).count(f"{speed:.2f}×") >= 2


def test_the_terminal_has_the_place_of_the_report(results, tmp_path):
    text = summary(results["all"], False, tmp_path / "report.html")
    assert text.endswith(f"report: {tmp_path / 'report.html'}\n")


def test_colour_changes_no_word(results):
    for result in results.values():
        plain, coloured = summary(result, False), summary(result, True)
        assert "\x1b[" in coloured
        bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


def test_the_terminal_fits_and_is_not_torn(results):
    for name, result in results.items():
        for line in summary(result, False).splitlines():
            assert len(line) <= 160, (name, line)
            assert "None" not in line


def test_a_cpu_is_shown_with_the_memory_of_its_process(results):
    assert re.search(r"torch-amp-bf16 .* GiB", summary(results["cpu"], False))


def test_control_characters_are_spelt_out():
    result = made.result(names=["torch-fp32"], rounds=2)
    result["warnings"] = ["\x1b[2Jgone"]
    assert "\x1b" not in summary(result, False)


# -- both, of the stand-in


@pytest.mark.parametrize("name", ["stand-in", "ops-stand-in"])
def test_no_text_gives_the_stand_ins_figures_to_apex(results, name):
    for text in (markdown(results[name]), summary(results[name], False)):
        assert "stand-in" in text
        for line in about_a_stand_in(text):
            assert "stand-in" in line, line


# -- the table


def test_the_table_has_a_row_for_every_block(results):
    rows = list(csv.DictReader(io.StringIO(csv_text(results["all"]))))
    blocks = [row for row in rows if (row["scenario"], row["metric"]) == ("apex-fp32", "time")]
    assert len(blocks) == 5 * 10
    assert {row["label"] for row in blocks} == {"Apex"}
    assert float(blocks[0]["value"]) == results["all"]["scenarios"][2]["time"]["rounds"][0][
        "blocks"][0]
    assert {row["unit"] for row in blocks} == {"s"}
    assert [(int(row["round"]), int(row["block"])) for row in blocks] == [
        (number, block) for number in range(5) for block in range(10)]


def test_the_table_has_no_row_for_what_was_not_measured(results):
    rows = list(csv.DictReader(io.StringIO(csv_text(results["awkward"]))))
    assert not [row for row in rows if row["scenario"] == "torch-fused-amp-bf16-graph"]
    assert not [row for row in rows if row["value"] in ("", "None")]


def test_the_table_of_operations_has_each_clock(results):
    rows = list(csv.DictReader(io.StringIO(csv_text(results["ops"]))))
    assert tuple(rows[0]) == HEAD
    point = "adam/4 x 4 Mi/float32/plain/step/torch-fused"
    metrics = {row["metric"] for row in rows if row["scenario"] == point}
    assert {"cold_median", "hot_median", "host_median", "call_median", "gbps"} <= metrics


def test_the_table_names_the_stand_in_in_each_of_its_rows(results):
    for name in ("stand-in", "ops-stand-in"):
        for row in csv.DictReader(io.StringIO(csv_text(results[name]))):
            if "apex" in row["scenario"]:
                assert row["label"] == "stand-in"
                assert "apex" not in row["title"].lower()


def test_no_text_depends_on_anything_but_the_result(results):
    for result in results.values():
        again = json.loads(json.dumps(result))
        assert markdown(again) == markdown(result)
        assert csv_text(again) == csv_text(result)
        assert summary(again, False) == summary(result, False)
