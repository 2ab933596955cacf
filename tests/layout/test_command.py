"""How the `apexlab` command ends, whatever its subcommands do."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from apexlab.verify import errors, main


def apexlab(*args: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", "from apexlab.verify.main import main; main()",
                           *args], capture_output=True, text=True)


@pytest.mark.parametrize(("raised", "code"), [
    (errors.ProblemError("wheel is broken"), 1),
    (errors.UsageError("no such cell"), 2),
    (ValueError("a fault"), 3),
    (errors.CannotError("no engine"), 4),
    (KeyboardInterrupt(), 130),
])
def test_an_error_ends_as_one_paragraph_with_its_exit_code(monkeypatch, capsys, raised, code):
    @click.command()
    def broken() -> None:
        raise raised

    monkeypatch.setattr(main.Commands, "get_command", lambda *_: broken)
    assert main.run(["broken"]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.lstrip().startswith("apexlab: ") and "Traceback" not in err


def test_debug_shows_where_the_error_was_raised_and_keeps_the_exit_code(monkeypatch, capsys):
    @click.command()
    def broken() -> None:
        raise errors.ProblemError("wheel is broken")

    monkeypatch.setattr(main.Commands, "get_command", lambda *_: broken)
    assert main.run(["--debug", "broken"]) == errors.PROBLEM
    assert 'raise errors.ProblemError("wheel is broken")' in capsys.readouterr().err


def test_a_reader_that_left_is_no_problem(monkeypatch):
    # `apexlab image ... | head`: click by itself would end with 1.
    def leave() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(main.Commands, "get_command", lambda *_: click.Command("x", callback=leave))
    monkeypatch.setattr(main.output, "silence", lambda: None)
    assert main.run(["x"]) == errors.OK


def test_an_unknown_command_is_a_usage_error():
    done = apexlab("frobnicate")
    assert done.returncode == 2 and "frobnicate" in done.stderr and done.stdout == ""


def test_a_bad_value_is_told_in_one_line_that_names_the_help():
    done = apexlab("verify", "--level", "lod")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("apexlab: ") and "`apexlab verify --help`" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_returned_number_is_the_exit_code(monkeypatch):
    command = click.Command("five", callback=lambda: errors.FALLBACK)
    monkeypatch.setattr(main.Commands, "get_command", lambda *_: command)
    assert main.run(["five"]) == 5


@pytest.mark.parametrize(("environ", "expected"), [
    ({"NO_COLOR": "1"}, False), ({"FORCE_COLOR": "1"}, True), ({}, None),
    ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False), ({"NO_COLOR": ""}, None),
])
def test_colour_follows_the_two_variables(environ, expected):
    assert main.colour(environ) is expected


@pytest.mark.parametrize(("codes", "expected"), [
    ([0, 4, 5], 5), ([5, 1], 1), ([1, 3], 3), ([4, 0], 4), ([], 0),
])
def test_the_worst_exit_code_wins(codes, expected):
    assert errors.worst(codes) == expected
