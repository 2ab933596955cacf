"""The child process of load.py: imports torch once, then forks one process per extension.

Run as text with `python -c`, in an environment that need not have apexlab: standard library only.
Each extension is imported in a process of its own, so that a crash, an exit or a hang is an
answer and not the end; Apex's own Python modules follow in one more. Answers go to a pipe of their
own, one JSON document a line; whatever is imported may print, which goes to a file.
"""

from __future__ import annotations

import contextlib
import ctypes
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
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    """The job is a JSON document: fd, paths, prepend, logs, seconds, extensions, wrappers."""
    job = json.loads(sys.argv[1])
    end_with_parent()
    adopt_orphans()
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
        for answer in wrappers_in_processes(job, report.fileno()):
            tell(report, answer)


def end_with_parent() -> None:
    """Let the system end this process when its parent is gone, however that ended."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Let what a grandchild starts and leaves behind, in a session of its own, become ours."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> set[int]:
    """Our processes; empty where the system does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
            return set(map(int, file.read().split()))
    except OSError:
        return set()


def end_orphans(own: set[int]) -> None:
    """End all that was not there before. Each may leave more behind, but not without end."""
    for _ in range(100):
        orphans = children() - own
        for pid in orphans:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if not orphans:
            return


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
    log = f"{job['logs']}/{extension['name']}"
    own = children()
    pid, reading = forked(lambda writing: import_one(extension, torch, writing), log, report)
    text, status, late = attend(pid, reading, job["seconds"])
    end_orphans(own)
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
    return {**(cleaned(said) or {"ended": status}), **answer}


def forked(act: Any, log: str, report: int) -> tuple[int, int]:
    """Start a process that does act(writing end of a pipe), and prints into `log`; its number,
    and the end to read from."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            end_with_parent()
            os.close(reading)
            os.close(report)
            resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            act(writing)
        finally:
            # No destructors and no atexit handlers: those of torch belong to the parent.
            os._exit(0)
    os.close(writing)
    return pid, reading


def cleaned(said: Any) -> dict[str, Any]:
    """The parts of an answer that are of the known form; empty for what is no answer. Whatever is
    imported can write into our pipe."""
    if not isinstance(said, dict):
        return {}
    if said.get("ok") is True and isinstance(said.get("file"), str):
        kinds: dict[str, Any] = {"ops": (int, type(None)), "swallowed": (str, type(None)),
                                 "libraries": list}
        more = {key: said[key] for key, kind in kinds.items()
                if key in said and isinstance(said[key], kind)}
        return {"ok": True, "file": said["file"], **more}
    names = said.get("kinds")
    if not isinstance(said.get("text"), str) or not isinstance(names, list) or not names:
        return {}
    missing = said.get("missing")
    return {"ok": False, "text": said["text"], "kinds": [str(name) for name in names],
            "missing": missing if isinstance(missing, str) else None}


def import_one(extension: dict[str, str], torch: Any, writing: int) -> None:
    answer: dict[str, Any]
    try:
        if extension["layout"] == "library":
            answer = load_library(extension, torch)
        else:
            module = importlib.import_module(extension["module"])
            answer = {"ok": True, "file": str(getattr(module, "__file__", ""))}
    except BaseException as error:
        answer = described(error)
    with contextlib.suppress(OSError):
        os.write(writing, json.dumps(answer).encode())


def load_library(extension: dict[str, str], torch: Any) -> dict[str, Any]:
    """Load a library for torch.ops, and count the operations that came with it; None where this
    torch does not tell them."""
    names = getattr(getattr(torch, "_C", None), "_dispatch_get_all_op_names", None)
    before = set(names()) if names else set()
    torch.ops.load_library(extension["path"])
    new = set(names()) - before if names else set()
    own = sum(name.startswith("apex::") for name in new)
    return {"ok": True, "file": extension["path"], "ops": own if names else None}


def wrappers_in_processes(job: dict[str, Any], report: int) -> Any:
    """Import Apex's own modules one after another in one process; where it ends early, the rest
    in a new one."""
    left = list(job["wrappers"])
    while left:
        log = f"{job['logs']}/wrappers"
        pid, reading = forked(lambda writing, names=left: import_wrappers(names, writing), log,
                              report)
        text, status, late = attend(pid, reading, job["seconds"])
        os.close(reading)
        for line in text.splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                said = json.loads(line)
                answer = cleaned(said)
                if left and answer and said.get("wrapper") == left[0]:
                    yield {"wrapper": left[0], **answer}
                    del left[0]
        if left:
            how = {"hang": job["seconds"]} if late else {"ended": status}
            name = left.pop(0)
            yield {"wrapper": name, "output": tail(log), **how}
            if name == "apex":
                return  # each module of it would import it first, and end or hang in the same way


def import_wrappers(names: list[str], writing: int) -> None:
    for name in names:
        answer: dict[str, Any]
        try:
            module = importlib.import_module(name)
            libraries = getattr(getattr(sys.modules.get("torch"), "ops", None),
                                "loaded_libraries", ())
            answer = {"ok": True, "file": str(getattr(module, "__file__", "")),
                      "swallowed": swallowed(module), "libraries": sorted(map(str, libraries))}
        except BaseException as error:
            answer = described(error)
        with contextlib.suppress(OSError):
            os.write(writing, json.dumps({"wrapper": name, **answer}).encode() + b"\n")


def swallowed(module: Any) -> str | None:
    """The import error that a class of the module caught and kept, as MultiTensorApply does."""
    for value in list(vars(module).values()):
        kept = getattr(value, "__dict__", {}) if isinstance(value, type) else {}
        if kept.get("available") is False and "import_err" in kept:
            error = kept["import_err"]
            return f"{type(error).__name__}: {error}"[:_LONGEST_TEXT] if error else ""
    return None


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
            return text, 0, True
        if not open_:
            time.sleep(0.002)


def described(error: BaseException) -> dict[str, Any]:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    # torch.ops.load_library hides the loader's words in the cause.
    cause = f": {error.__cause__}" if error.__cause__ else ""
    missing = getattr(error, "name", None)
    return {"ok": False, "kinds": kinds, "missing": missing if isinstance(missing, str) else None,
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
