"""The command line of bench: what it imports, and how it ends on bad input."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import click
import pytest

from apexlab.bench import cmd_train
from apexlab.bench.cmd_bench import COMMANDS, bench
from apexlab.bench.cmd_train import _again, _plan_again, train
from apexlab.bench.planning.plan import Request, differences, make_plan
from apexlab.bench.planning.preset_file import find_preset
from apexlab.verify import device
from apexlab.verify.errors import CannotError
from apexlab.verify.main import SUMMARIES

NO_GPU = not device.look().devices


def apexlab(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-c", "from apexlab.verify.main import main; main()", *arguments],
        capture_output=True, text=True, timeout=60, **more)


def first_line(command):
    return command.help.strip().splitlines()[0]


def test_each_help_line_is_the_first_line_of_its_command():
    assert first_line(bench) == SUMMARIES["bench"]
    for name, (module, line) in COMMANDS.items():
        if find_spec(module.partition(":")[0]) is not None:
            command = bench.get_command(click.Context(bench), name)
            assert isinstance(command, click.Command) and first_line(command) == line, name


def test_one_broken_command_hurts_no_other(monkeypatch):
    monkeypatch.setitem(COMMANDS, "ops", ("apexlab.bench.nowhere:ops", "Broken."))
    context = click.Context(bench)
    assert bench.get_command(context, "train") is train
    assert "ops" in bench.get_help(context)
    with pytest.raises(ModuleNotFoundError):
        bench.get_command(context, "ops")
    assert bench.get_command(context, "nothing") is None


def test_help_imports_neither_torch_nor_charts_nor_commands():
    script = ("import sys; from apexlab.verify.main import run; run(['bench', '--help']); "
              "print(sorted({'torch', 'matplotlib', 'numpy', 'pynvml', 'apexlab.bench.cmd_train'}"
              " & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.skipif(not NO_GPU, reason="this machine has a GPU")
@pytest.mark.parametrize("arguments", [[], ["train"], ["train", "--gpus", "2"]])
def test_without_a_gpu_it_says_how_to_measure_on_the_cpu(arguments):
    done = apexlab("bench", *arguments)
    assert done.returncode == 4 and done.stdout == ""
    assert "no GPU" in done.stderr and "--device cpu" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bench_alone_is_the_quick_classic_ladder(monkeypatch):
    given = {}
    monkeypatch.setattr(train, "callback", lambda **options: given.update(options) or 0)
    bench.main([], standalone_mode=False)
    assert given["quick"] and given["ladder"] == "classic"
    assert given["margin"] == 2.0 and given["gpus"] == 1 and given["scenarios"] is None


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (["--preset", "tinny"], 2, "Did you mean tiny"),
    (["--preset", "absent.toml"], 2, "absent.toml"),
    (["--ladder", "clasic"], 2, "Did you mean classic"),
    (["--scenarios", "torch-fp23"], 2, "Did you mean torch-fp32"),
    (["--scenarios", ","], 2, "names none"),
    (["--rounds", "0"], 2, "--rounds 0"),
    (["--gpus", "0"], 2, "--gpus"),
    (["--margin", "0"], 2, "--margin"),
    (["--seed", "-1"], 2, "--seed"),
    (["--device", "tpu"], 2, "--device"),
    (["--data", "absent.txt"], 2, "absent.txt"),
    (["--data", "empty.txt"], 2, "is empty"),
    (["--data", "short.txt"], 2, "has 5 bytes"),
    (["--resume"], 2, "no run in"),
    (["--resume", "--out", "absent"], 2, "no run in absent"),
    (["--out", "short.txt"], 2, "is a file"),
    (["--out", "short.txt/run"], 4, "cannot be made"),
])
def test_bad_input_is_one_paragraph_with_its_exit_code(tmp_path, arguments, code, words):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("short")
    if code == 4 and find_spec("torch") is None:
        words = "torch is not installed"
    device_ = [] if "--device" in arguments else ["--device", "cpu"]
    done = apexlab("bench", "train", *device_, *arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stderr and len(done.stderr.splitlines()) == 1 and done.stdout == ""
    assert not (tmp_path / "results").exists()


def test_more_gpus_than_there_are_cannot_be_had(monkeypatch):
    two = device.Visible((device.Device("made up", "9.0"),) * 2)
    monkeypatch.setattr(device, "look", lambda: two)
    monkeypatch.setattr(cmd_train.importlib.util, "find_spec", lambda name: name)
    cmd_train._require("cuda", 2)
    with pytest.raises(CannotError, match="--gpus 3 needs 3 GPUs, and 2 are visible"):
        cmd_train._require("cuda", 3)
    monkeypatch.setattr(cmd_train.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CannotError, match="torch is not installed"):
        cmd_train._require("cpu", 1)


def test_the_command_to_go_on_with_names_what_is_not_in_the_folder(tmp_path):
    assert _again(False, True, tmp_path / "a b") == (
        f"apexlab bench train --allow-shared-gpu --resume --out '{tmp_path}/a b'")


def _again_as(old, *arguments):
    plan = _plan_again(train.make_context("train", ["--resume", *arguments]), old)
    return plan, differences(old, plan.document("0", "now"))


def test_a_run_is_gone_on_with_from_its_folder_alone():
    """Also one with a preset from a file that is gone, and with nothing left at its default."""
    model = replace(find_preset("cpu"), name="mine", batch=3, seconds=7)
    first = make_plan(Request(None, ("torch-fused-fp32",), 2, True, "cpu", 1, 9, 0.05), model)
    old = first.document("0", "now")
    plan, differ = _again_as(old)
    assert not differ and plan == replace(first, notes=plan.notes)
    plan, differ = _again_as(old, "--rounds", "6")
    assert not differ and plan.rounds == 6


@pytest.mark.parametrize("arguments, differ", [
    (["--seed", "0"], ["seed"]), (["--device", "cuda"], ["device", "timing"]),
    (["--margin", "2"], ["margin"]), (["--ladder", "modern"], ["scenarios"]),
    (["--gpus", "2"], ["gpus"]), (["--preset", "tiny"], ["preset"])])
def test_a_given_option_that_differs_from_the_run_is_found_though_it_is_a_default(
        arguments, differ):
    old = make_plan(Request("classic", (), 2, True, "cpu", 1, 9, 0.05),
                    find_preset("cpu")).document("0", "now")
    assert _again_as(old, *arguments)[1] == differ


@pytest.mark.parametrize("option, value", [("--margin", "nan"), ("--margin", "inf"),
                                           ("--rounds", "3000000")])
def test_a_number_beyond_all_measure_is_refused(tmp_path, option, value):
    """NaN is in every range; millions of rounds fill the memory with their order alone."""
    done = apexlab("bench", "train", "--device", "cpu", option, value, "--out", tmp_path / "run")
    assert done.returncode == 2 and option in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "run").exists()
