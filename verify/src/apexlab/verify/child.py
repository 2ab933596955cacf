"""The child process of load.py: imports torch once, then forks one process per extension.

Run as text with `python -c`, in an environment that need not have apexlab: standard library only.
Each extension is imported in a process of its own, so that a crash, an exit or a hang is an
answer and not the end. Answers go to a pipe of their own, one JSON document a line; whatever the
extensions print goes to a file.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

_LONGEST_TEXT = 4000
_LONGEST_ANSWER = 64 * 1024
_LARGEST_FILE = 16 << 20


def main() -> None:
    """The job is a JSON document: fd, paths, prepend, logs, seconds, extensions."""
    job = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job["paths"]:
        sys.path[:] = job["paths"]
    sys.path[:0] = job["prepend"]
    with os.fdopen(job["fd"], "w", encoding="utf-8") as report:
        answer, torch = import_torch()
        tell(report, answer)
        if torch is None:
            return
        for extension in job["extensions"]:
            tell(report, in_own_process(extension, job, torch, report.fileno()))


def tell(report: Any, answer: dict[str, Any]) -> None:
    report.write(json.dumps(answer) + "\n")
    report.flush()


def import_torch() -> tuple[dict[str, Any], Any]:
    try:
        import torch
    except BaseException as error:
        return {"name": "torch", **described(error)}, None
    return {"name": "torch", "ok": True, "file": str(torch.__file__)}, torch


def in_own_process(
    extension: dict[str, str], job: dict[str, Any], torch: Any, report: int,
) -> dict[str, Any]:
    reading, writing = os.pipe()
    log = f"{job['logs']}/{extension['name']}"
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.close(report)
        import_one(extension, torch, writing, log)
    os.close(writing)
    text, status, late = attend(pid, reading, job["seconds"])
    os.close(reading)
    answer: dict[str, Any] = {"name": extension["name"], "output": tail(log)}
    if late:
        return {**answer, "hang": job["seconds"]}
    try:
        # Even with an answer the process may have crashed afterwards: then that is the answer.
        said: Any = json.loads(text) if status == 0 else None
    except (ValueError, RecursionError):
        said = None
    # What the extension itself wrote into the pipe is no answer of ours, and must not be able to
    # speak for another extension.
    return {**(said if is_answer(said) else {"ended": status}), **answer}


def is_answer(said: Any) -> bool:
    if not isinstance(said, dict):
        return False
    if said.get("ok") is True:
        return isinstance(said.get("file"), str)
    return isinstance(said.get("text"), str) and (
        isinstance(said.get("kinds"), list) and bool(said["kinds"]))


def import_one(extension: dict[str, str], torch: Any, writing: int, log: str) -> None:
    """In the grandchild: import, answer, leave. Never returns."""
    answer: dict[str, Any]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if extension["layout"] == "library":
            torch.ops.load_library(extension["path"])
            answer = {"ok": True, "file": extension["path"]}
        else:
            module = importlib.import_module(extension["module"])
            answer = {"ok": True, "file": str(getattr(module, "__file__", ""))}
    except BaseException as error:
        answer = described(error)
    with contextlib.suppress(OSError):
        os.write(writing, json.dumps(answer).encode())
    # No destructors and no atexit handlers: those of torch belong to the parent.
    os._exit(0)


def attend(pid: int, reading: int, seconds: float) -> tuple[bytes, int, bool]:
    """Wait for the grandchild: its answer, its exit code (negative: the signal), too late?"""
    deadline = time.monotonic() + seconds
    text, open_ = b"", True
    while True:
        if open_ and select.select([reading], [], [], 0.01)[0]:
            piece = os.read(reading, _LONGEST_ANSWER)
            text = (text + piece)[:_LONGEST_ANSWER]
            open_ = bool(piece)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if open_ and select.select([reading], [], [], 0)[0]:
                text += os.read(reading, _LONGEST_ANSWER)
            return text, os.waitstatus_to_exitcode(status), False
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return b"", 0, True
        if not open_:
            time.sleep(0.002)


def described(error: BaseException) -> dict[str, Any]:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    # torch.ops.load_library hides the loader's words in the cause.
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return {"ok": False, "kinds": kinds, "missing": getattr(error, "name", None),
            "text": f"{error}{cause}"[:_LONGEST_TEXT]}


def tail(log: str) -> str:
    try:
        with open(log, "rb") as file:  # noqa: PTH123
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
