"""The child of a build: log, memory, and nothing alive afterwards. Real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apexlab.build import runner
from apexlab.build.runner import run, session_processes

# As ninja does: a child in a process group of its own, which a signal to ours does not reach.
GRANDCHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         preexec_fn=os.setpgrp)
print("grandchild", child.pid, flush=True)
time.sleep(600)
"""


def alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def python(code):
    return [sys.executable, "-c", code]


def test_every_line_goes_to_the_log_and_to_the_caller(tmp_path):
    lines = []
    code = "import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)"
    ended = run(python(code), tmp_path, os.environ, tmp_path / "log", lines.append)
    assert ended.code == 3
    assert sorted(lines) == ["one", "two"]
    assert sorted((tmp_path / "log").read_text().split()) == ["one", "two"]


def test_the_peak_is_what_the_child_took(tmp_path):
    code = ("import time; x = bytearray(300 * 2**20);"
            "x[::4096] = b'1' * len(x[::4096]); time.sleep(1)")
    ended = run(python(code), tmp_path, os.environ, tmp_path / "log", lambda line: None)
    assert 300 * 2**20 < ended.peak < 500 * 2**20


def test_bytes_that_are_no_text_do_not_stop_the_log(tmp_path):
    code = r"import sys; sys.stdout.buffer.write(b'\xff\xfe error\n')"
    lines = []
    assert run(python(code), tmp_path, os.environ, tmp_path / "log", lines.append).code == 0
    assert "error" in lines[0]


def test_an_interrupt_ends_every_process_of_the_build(tmp_path):
    seen = []

    def on_line(line):
        seen.append(int(line.split()[1]))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(python(GRANDCHILD), tmp_path, os.environ, tmp_path / "log", on_line)
    assert seen
    assert not alive(seen[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_process_of_the_build(tmp_path, number):
    script = tmp_path / "driver.py"
    script.write_text(
        "import os, pathlib, sys\nfrom apexlab.build.runner import run\n"
        f"run([sys.executable, '-c', {GRANDCHILD!r}], pathlib.Path('.'), os.environ,\n"
        "    pathlib.Path('log'), lambda line: print(line, flush=True))\n")
    outer = subprocess.Popen([sys.executable, script], cwd=tmp_path, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    pid = int(outer.stdout.readline().split()[1])
    assert alive(pid)
    outer.send_signal(number)
    assert "KeyboardInterrupt" in outer.communicate(timeout=30)[1]
    assert not alive(pid)


def test_a_process_that_ignores_the_request_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_GRACE", 1.0)
    code = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "print('ready', flush=True); time.sleep(600)")
    start = time.monotonic()

    def on_line(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(python(code), tmp_path, os.environ, tmp_path / "log", on_line)
    assert time.monotonic() - start < 30


def test_a_session_is_found_by_its_number():
    own = os.getsid(0)
    assert os.getpid() in {pid for pid, _ in session_processes(own)}
