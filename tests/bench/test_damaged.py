"""Files that anything may have happened to: one paragraph and the right exit code, and no report
that claims what they do not hold."""

import contextlib
import io
import json
import re
from types import SimpleNamespace

import made_ops
import made_result as made
import pytest

from apexlab.bench.report.deliver import report_kept
from apexlab.bench.report.markdown_table import cell
from apexlab.verify.main import run

LADDER = "classic"


def bench(*args):
    """The command, in this process: its exit code and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["bench", *map(str, args)])
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


def refused(done):
    assert done.code == 2 and done.out == ""
    assert done.err.startswith("apexlab: ") and done.err.count("\n") == 1
    assert "internal error" not in done.err
    return done.err


def made_run():
    plan = made.plan(ladder=LADDER, rounds=2)
    rows = [{**row, "record": None} if row["row"] == "subject" else row
            for row in made.rows(plan)]
    return json.loads(json.dumps(plan)), json.loads(json.dumps(rows))


def written(folder, plan, rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def first(rows, kind):
    return next(row for row in rows if row["row"] == kind)


PLANS = {"no shape": lambda plan: plan["preset"].update(shape=None),
         "no rounds": lambda plan: plan.pop("rounds"),
         "words for rounds": lambda plan: plan.update(rounds="x"),
         "a list for a ladder": lambda plan: plan.update(ladder=[[]])}
ROWS = {"no result": lambda row: row.pop("result"),
        "text for a result": lambda row: row.update(result="<script>"),
        "a number for a result": lambda row: row.update(result=3),
        "a number for a proof": lambda row: row.update(proof=1.5)}


@pytest.mark.parametrize("harm", PLANS.values(), ids=PLANS)
def test_a_damaged_plan_is_said_to_be_one(tmp_path, harm):
    plan, rows = made_run()
    harm(plan)
    refused(bench("report", written(tmp_path, plan, rows)))


@pytest.mark.parametrize("kind", ["look", "run"])
@pytest.mark.parametrize("harm", ROWS.values(), ids=ROWS)
def test_a_damaged_row_is_said_to_be_one(tmp_path, harm, kind):
    plan, rows = made_run()
    harm(first(rows, kind))
    assert "damaged" in refused(bench("report", written(tmp_path, plan, rows)))


def test_a_line_that_is_no_row_is_named_and_not_passed_over(tmp_path):
    plan, rows = made_run()
    rows[3] = 17
    assert "line 4" in refused(bench("report", written(tmp_path, plan, rows)))


def test_a_time_that_no_float_holds_is_no_fault_of_the_command(tmp_path):
    plan, rows = made_run()
    first(rows, "run")["result"]["blocks"][0] = 10**400
    assert "damaged" in refused(bench("report", written(tmp_path, plan, rows)))


def test_rows_that_are_there_twice_count_once(tmp_path):
    plan, rows = made_run()
    once, twice = (written(tmp_path / name, plan, given)
                   for name, given in (("once", rows), ("twice", [*rows, *rows[1:]])))
    results = [json.loads(bench("report", each, "--json").out) for each in (once, twice)]
    assert results[0]["scenarios"] == results[1]["scenarios"]
    assert results[0]["advice"] == results[1]["advice"]


RESULTS = {"no settings": lambda result: result["scenarios"].__setitem__(1, {}),
           "text for advice": lambda result: result["advice"].__setitem__(0, "x"),
           "no noise": lambda result: result.update(noise={}),
           "no telemetry": lambda result: [each.pop("telemetry")
                                           for each in result["scenarios"]]}


@pytest.mark.parametrize("harm", RESULTS.values(), ids=RESULTS)
def test_a_damaged_result_makes_no_report(tmp_path, harm):
    result = json.loads(json.dumps(made.result(ladder=LADDER)))
    harm(result)
    (tmp_path / "result.json").write_text(json.dumps(result))
    refused(bench("report", tmp_path))


def two_results(tmp_path, harm):
    base, new = (json.loads(json.dumps(made.result(ladder=LADDER, seed=seed))) for seed in (0, 1))
    harm(new)
    for name, result in (("base", base), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    return tmp_path / "base.json", tmp_path / "new.json"


HARMS = {
    "no environment": lambda result: result.update(environment={"apex": 3}),
    "no scenarios": lambda result: result.update(scenarios=[3]),
    "a time below zero": lambda result: [
        each["blocks"].append(-1) for each in result["scenarios"][0]["time"]["rounds"]],
    "a NaN": lambda result: result["scenarios"][0]["time"].update(median=float("nan"))}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_damaged_result_is_no_regression(tmp_path, harm):
    """A gate ends with 1 when something became worse, and for nothing else."""
    refused(bench("compare", *two_results(tmp_path, harm), "--gate", "--force"))


def test_an_apex_that_changed_on_the_way_lends_its_name_to_no_time(tmp_path):
    """A run begun with the stand-in, and gone on with where Apex is installed."""
    plan = made.plan(ladder=LADDER, rounds=2)
    rows = made.rows(plan, label="stand-in")
    subjects = [{"row": "subject", "apex": made.apex(label), "record": None}
                for label in ("stand-in", "Apex")]
    folder = written(tmp_path, plan, [subjects[0], *rows[1:], subjects[1]])
    assert "changed within this run" in refused(bench("report", folder))
    written(tmp_path, plan, [subjects[0], *rows[1:], subjects[0]])
    assert bench("report", folder).code == 0


def test_a_text_from_a_file_steers_no_terminal():
    assert cell("H200\x1b[2J\x07\x9b31m|<b>\n# x") == r"H200[2J31m\|&lt;b> # x"
    result = json.loads(json.dumps(made_ops.result()))
    result["environment"]["device"] = "H200\x1b[2J"
    from apexlab.bench.report.markdown import markdown

    assert not re.search(r"[\x00-\x09\x0b-\x1f]", markdown(result))


def test_ctrl_c_in_the_report_says_that_nothing_is_lost(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt), report_kept(tmp_path):
        raise KeyboardInterrupt
    assert f"apexlab bench report {tmp_path}" in capsys.readouterr().err
