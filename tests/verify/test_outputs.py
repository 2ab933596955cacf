"""The files that `apexlab verify` writes: whole or not at all, and never instead of the verdict."""

import json
import os
import resource
import stat
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from apexlab.verify import output
from apexlab.verify.errors import CannotError

SCRIPT = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"


def apexlab(*args, preexec_fn=None, **environ):
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, "verify", *map(str, args)], capture_output=True, text=True,
        preexec_fn=preexec_fn, env={**inherited, **environ})


@pytest.fixture
def judged(maker, folder):
    """The arguments that judge a site in order, as far as its files tell."""
    return ["--site", maker.healthy(folder, "amp_C"), "--level", "static", "--require", "amp_C"]


@pytest.fixture
def out(tmp_path_factory):
    """A folder for what is written, and nothing else."""
    return tmp_path_factory.mktemp("out")


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_both_files_are_written_beside_the_report(judged, out):
    done = apexlab(*judged, "--junit", out / "a.xml", "--html", out / "a.html", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and json.loads(done.stdout)["verdict"] == "ok"
    assert ET.parse(out / "a.xml").getroot()[0].get("failures") == "0"
    assert (out / "a.html").read_text().rstrip().endswith("</html>")
    assert names(out) == ["a.html", "a.xml"]


def test_a_broken_verdict_is_written_too(judged, out):
    done = apexlab(*judged, "--require", "syncbn", "--junit", out / "a.xml",
                   "--html", out / "a.html")
    assert done.returncode == 1 and done.stdout.startswith("BROKEN")
    assert ET.parse(out / "a.xml").getroot()[0].get("failures") == "1"
    assert "not-installed" in (out / "a.html").read_text()


@pytest.mark.parametrize("option", ["--junit", "--html"])
@pytest.mark.parametrize("bad", ["absent/a.xml", "folder", "file/a.xml", "a" * 300, ""])
def test_a_path_that_cannot_be_written_is_refused_before_the_work(judged, out, option, bad):
    (out / "folder").mkdir()
    (out / "file").touch()
    done = apexlab(*judged, option, out / bad if bad else "")
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stdout == ""
    assert "cannot be written: " in done.stderr and done.stderr.count("\n") == 1
    assert names(out) == ["file", "folder"]


def test_the_check_leaves_an_older_file_as_it_is(out):
    (out / "a.xml").write_text("older")
    output.check_writable(out / "a.xml")
    assert (out / "a.xml").read_text() == "older"
    assert names(out) == ["a.xml"]


def test_one_file_for_two_forms_is_a_bad_request(judged, out):
    done = apexlab(*judged, "--junit", out / "a", "--html", out / "." / "a")
    assert done.returncode == 2 and "--junit and --html" in done.stderr


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode_and_its_link(out):
    real, link = out / "real", out / "link"
    real.write_text("older")
    real.chmod(0o640)
    link.symlink_to("real")
    output.write_file(link, "newer")
    assert link.is_symlink() and real.read_text() == "newer"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    output.write_file(out / "new", "newer")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((out / "new").stat().st_mode) == 0o666 & ~umask


def test_what_cannot_be_written_to_the_end_leaves_the_older_file(out, monkeypatch):
    (out / "a").write_text("older")

    def full(_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotError, match="No space left on device"):
        output.write_file(out / "a", "newer")
    assert (out / "a").read_text() == "older" and names(out) == ["a"]


def test_a_pipe_is_written_to_and_not_replaced(judged, out):
    # A pipe of our own, and no device: broken code would replace the system's.
    os.mkfifo(out / "pipe")
    reading = os.open(out / "pipe", os.O_RDWR | os.O_NONBLOCK)
    done = apexlab(*judged, "--junit", out / "pipe")
    assert done.returncode == 0, done.stderr
    assert b"<testsuites>" in os.read(reading, 1 << 16)
    os.close(reading)
    assert (out / "pipe").is_fifo() and names(out) == ["pipe"]


def test_a_disk_that_fills_up_costs_neither_the_report_nor_a_worse_verdict(judged, out):
    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    done = apexlab(*judged, "--junit", out / "a.xml", preexec_fn=no_room)
    assert done.returncode == 4 and done.stdout.startswith("OK ")
    assert "a.xml cannot be written: File too large" in done.stderr
    done = apexlab(*judged, "--require", "syncbn", "--html", out / "a", preexec_fn=no_room)
    assert done.returncode == 1 and done.stdout.startswith("BROKEN")
    assert names(out) == []


def test_in_actions_there_are_annotations_and_a_summary(judged, out):
    summary = out / "summary"
    summary.write_text("Before.\n")
    plain = apexlab(*judged, "--require", "syncbn")
    done = apexlab(*judged, "--require", "syncbn", GITHUB_ACTIONS="true",
                   GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert done.stdout.split(" s\n", 1)[1] == plain.stdout.split(" s\n", 1)[1]
    assert done.stderr.startswith("::error title=apexlab verify%3A not-installed::syncbn is absent")
    assert summary.read_text().startswith("Before.\n### apexlab verify: BROKEN\n")
    assert plain.stderr == ""


def test_a_full_summary_is_left_alone(judged, out):
    summary = out / "summary"
    summary.write_bytes(b"x" * ((1 << 20) - 10))
    done = apexlab(*judged, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0 and summary.stat().st_size == (1 << 20) - 10


def test_a_summary_that_cannot_be_written_changes_no_exit_code(judged, out):
    done = apexlab(*judged, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(out / "a" / "b"))
    assert done.returncode == 0 and "summary is lost" in done.stderr


def test_what_cannot_be_appended_whole_is_not_appended(out):
    (out / "a").write_text("older\n")
    code = ("import resource, signal, sys, pathlib\n"
            "from apexlab.verify import output\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
            "output.append(pathlib.Path(sys.argv[1]), 'x' * 1000)\n")
    done = subprocess.run([sys.executable, "-c", code, out / "a"], capture_output=True,
                          text=True)
    assert "CannotError" in done.stderr
    assert (out / "a").read_text() == "older\n"
