"""Processes that are attended: each may crash, hang, leave children or write nonsense."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apexlab.verify import process
from apexlab.verify.errors import CannotError

START = """
import json, os, sys, time, subprocess
job = json.loads(sys.argv[1])
def say(answer): os.write(job["fd"], (json.dumps(answer) + "\\n").encode())
"""


@dataclass
class Script:
    """A process.Task that runs a text of Python."""

    folder: Path
    text: str
    limit: float = 10.0
    again: int = 0
    python: str = sys.executable
    answers: list[dict] = field(default_factory=list)
    ends: list[dict] = field(default_factory=list)

    def command(self):
        return (self.python, "-c", START + self.text)

    def job(self):
        return {"started": len(self.ends)}

    def environ(self):
        return os.environ

    def folders(self):
        return self.folder, self.folder / "log"

    def seconds(self):
        return self.limit

    def answered(self, answer):
        self.answers.append(answer)

    def ended(self, how):
        self.ends.append(how)
        return len(self.ends) <= self.again


def attended(tmp_path, text, **settings) -> Script:
    script = Script(tmp_path, text, **settings)
    process.attend([script])
    return script


def test_answers_arrive_in_order_and_the_end_is_told(tmp_path):
    script = attended(tmp_path, "say({'n': 1}); say({'n': 2})")
    assert [one["n"] for one in script.answers] == [1, 2]
    assert script.ends == [{"ended": "exit status 0", "code": 0}]


def test_a_crash_is_told_from_an_exit(tmp_path):
    crash = attended(tmp_path, "say({}); os.kill(os.getpid(), 11)")
    assert (crash.answers, crash.ends[0]["ended"]) == ([{}], "SIGSEGV")
    assert attended(tmp_path, "sys.exit(3)").ends[0]["ended"] == "exit status 3"


def test_a_hang_is_stopped_and_the_clock_starts_anew_with_each_answer(tmp_path):
    script = attended(tmp_path, """
for n in range(4): time.sleep(.4); say({'n': n})
time.sleep(60)""", limit=1.0)
    assert len(script.answers) == 4
    assert script.ends == [{"hang": 1.0}]


def test_a_task_that_asks_for_it_is_started_again(tmp_path):
    script = attended(tmp_path, "say({'start': job['started']}); os._exit(5)", again=2)
    assert [one["start"] for one in script.answers] == [0, 1, 2]
    assert len(script.ends) == 3


def test_nonsense_on_the_pipe_is_no_answer(tmp_path):
    script = attended(tmp_path, r"os.write(job['fd'], b'\xff[[[\n7\n[]\n{\"n\": 1}\nno end')")
    assert script.answers == [{"n": 1}]


def test_nonsense_without_end_wins_no_time(tmp_path):
    start = time.monotonic()
    script = attended(tmp_path, r"""
while True: os.write(job['fd'], b'7\n'); time.sleep(.01)""", limit=1.0)
    assert script.ends == [{"hang": 1.0}]
    assert time.monotonic() - start < 8


def test_what_is_printed_without_end_does_not_fill_the_disk(tmp_path):
    script = attended(tmp_path, """
end = time.monotonic() + 4
while time.monotonic() < end: os.write(1, b'x' * (1 << 20)); time.sleep(.005)
print('its last words'); say({})""")
    log = tmp_path / "log"
    assert script.answers == [{}]
    assert log.stat().st_size < 400 << 20
    assert log.read_bytes().endswith(b"its last words\n")


def test_an_answer_without_end_is_cut_off(tmp_path):
    start = time.monotonic()
    script = attended(tmp_path, "while True: os.write(job['fd'], b'x' * 65536)", limit=30.0)
    assert (script.answers, len(script.ends)) == ([], 1)
    assert time.monotonic() - start < 20


def test_several_tasks_run_side_by_side(tmp_path):
    both = [Script(tmp_path, "time.sleep(1); say({})") for _ in range(3)]
    start = time.monotonic()
    process.attend(both)
    assert all(len(one.answers) == 1 for one in both)
    assert time.monotonic() - start < 2.9


def test_what_a_process_started_is_ended_with_it(tmp_path):
    script = attended(tmp_path, "say({'pid': subprocess.Popen(['sleep', '60']).pid})")
    assert gone(script.answers[0]["pid"])


def test_a_child_that_keeps_the_pipe_open_does_not_hide_the_end(tmp_path):
    start = time.monotonic()
    script = attended(tmp_path, """
say({'n': 1})
if os.fork() == 0: time.sleep(60)
say({'n': 2}); os._exit(3)""", limit=30.0)
    assert [one["n"] for one in script.answers] == [1, 2]
    assert script.ends == [{"ended": "exit status 3", "code": 3}]
    assert time.monotonic() - start < 10


def test_a_python_that_is_not_there_is_one_paragraph(tmp_path):
    with pytest.raises(CannotError, match="cannot be started"):
        attended(tmp_path, "", python="/nowhere/python3")


def test_ctrl_c_leaves_no_child_behind(tmp_path):
    text = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_process import Script
from apexlab.verify import process
process.attend([Script(Path({str(tmp_path)!r}),
    "open('pid', 'w').write(str(os.getpid())); time.sleep(60)", limit=60)])
"""
    parent = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE)
    place = tmp_path / "pid"
    deadline = time.monotonic() + 20
    while not (place.exists() and place.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=20)
    assert b"KeyboardInterrupt" in errors
    assert gone(int(place.read_text()))


def test_ctrl_c_while_an_end_is_waited_for_leaves_no_child_behind(tmp_path):
    text = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_process import Script
from apexlab.verify import process
process.attend([Script(Path({str(tmp_path)!r}),
    "os.close(job['fd']); open('pid', 'w').write(str(os.getpid())); time.sleep(60)", limit=60)])
"""
    parent = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE)
    place = tmp_path / "pid"
    deadline = time.monotonic() + 20
    while not (place.exists() and place.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=20)
    assert b"KeyboardInterrupt" in errors
    assert gone(int(place.read_text()))


def gone(pid: int) -> bool:
    """Whether the process ends within a moment (a zombie of nobody's counts as ended)."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
