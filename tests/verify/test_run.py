"""The processes of the level `run`: what is asked of them, and what is done when they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import pytest

from apexlab.verify import run, site
from apexlab.verify.proofs import Ran
from apexlab.verify.prove.table import CALLS, FALLBACKS


def worker(tmp_path, *work) -> run._Worker:
    subject = site.Subject("site", "here", site.here(), None, {}, None, (), None, None)
    made = run._Worker(subject, {}, 0, tmp_path, None, deque(work), Ran("cuda:0"))
    (tmp_path / "log0").write_text("said\nits last words\n")
    return made


def case(api: str, dtype: str = "fp32") -> dict:
    index = next(number for number, call in enumerate(CALLS) if call.api == api)
    return {"kind": "case", "call": index, "dtype": dtype, "current": None}


def begin(made: run._Worker) -> None:
    made.job()
    made.answered({"kind": "controls"})


def test_every_call_is_made_for_every_dtype_and_once_more_beside_another_device():
    names = {call.extension for call in CALLS}
    alone = run.tasks(names, 0, 1)
    assert sum(task["kind"] == "case" for task in alone) == sum(len(c.dtypes) for c in CALLS)
    second = run.tasks(names, 1, 2)
    assert {task["current"] for task in second} == {None, 0}
    first = run.tasks(names, 0, 2)
    assert [task.get("current") for task in first[-2:]] == [1, 1]  # may end processes: comes last
    # What is only information is shown once.
    assert sum(task["kind"] == "fallback" for task in alone) == len(FALLBACKS)
    assert all(task["kind"] == "case" for task in second)
    assert run.tasks({"apex_C"}, 0, 1) and all(
        CALLS[task["call"]].extension == "apex_C" for task in run.tasks({"apex_C"}, 0, 1))


def test_a_crash_is_the_doing_of_the_call_that_was_due(tmp_path):
    made = worker(tmp_path, case("FusedLayerNorm"), case("FusedRMSNorm"))
    begin(made)
    made.answered({"kind": "answer", "phases": [1]})
    assert made.ended({"ended": "SIGSEGV", "code": -11}) is False
    (_, fine), (task, crashed) = made.result.cases
    assert fine == {"phases": [1]} and task == case("FusedRMSNorm")
    assert (crashed["ended"], crashed["output"]) == ("SIGSEGV", "its last words")


def test_after_a_crash_the_rest_is_made_by_another_process(tmp_path):
    made = worker(tmp_path, case("FusedLayerNorm"), case("FusedRMSNorm"))
    begin(made)
    assert made.ended({"hang": 60.0}) is True
    assert list(made.todo) == [case("FusedRMSNorm")]


def test_an_exit_after_an_answer_is_a_wish_for_a_new_process(tmp_path):
    made = worker(tmp_path, case("FusedLayerNorm"), case("FusedRMSNorm"))
    begin(made)
    made.answered({"kind": "answer", "error": {"kinds": ["E"], "text": ""}})
    assert made.ended({"ended": "exit status 0", "code": 0}) is True
    assert list(made.todo) == [case("FusedRMSNorm")]
    # But not without one: then the due call ended the process with 0.
    begin(made)
    assert made.ended({"ended": "exit status 0", "code": 0}) is False
    assert made.result.cases[-1][1]["ended"] == "exit status 0"


def test_calls_whose_like_ended_two_processes_are_not_made(tmp_path):
    made = worker(tmp_path, *(case("FusedLayerNorm", dtype) for dtype in ("fp32", "fp16", "bf16")),
                  case("FusedRMSNorm"))
    begin(made)
    assert made.ended({"ended": "SIGABRT", "code": -6}) is True
    begin(made)
    assert made.ended({"ended": "SIGABRT", "code": -6}) is True
    assert list(made.todo) == [case("FusedRMSNorm")]
    assert "not made" in made.result.cases[-1][1]["ended"]


def test_beside_another_device_all_calls_of_an_extension_are_alike(tmp_path):
    names = ("FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm", "FusedAdam")
    made = worker(tmp_path, *({**case(name), "current": 1} for name in names))
    begin(made)
    assert made.ended({"ended": "SIGABRT", "code": -6}) is True
    assert list(made.todo) == [{**case("FusedAdam"), "current": 1}]


def test_an_end_before_the_first_call_is_the_gpus_doing(tmp_path):
    made = worker(tmp_path, case("FusedLayerNorm"))
    made.job()
    assert made.ended({"ended": "SIGBUS", "code": -7}) is False
    assert "SIGBUS" in made.result.failed and "its last words" in made.result.failed
    assert made.result.cases == []


def test_the_second_instrument_comes_before_what_was_preloaded_already(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    made = worker(tmp_path)
    made.library = tmp_path / "lib.so"
    assert made.environ()["LD_PRELOAD"] == f"{tmp_path / 'lib.so'} /other.so"


@pytest.mark.torch
def test_a_torch_without_cuda_says_that_it_has_no_gpu(torch_python):
    """The real process, with the real torch, where no GPU can be used."""
    text = """
import json, torch
from pathlib import Path
from apexlab.verify import run, site
ran = run.run(site.folder_site(Path(torch.__file__).parents[1]), {}, 1)
print(json.dumps([ran[0].failed, len(ran[0].cases)]))
"""
    done = subprocess.run([torch_python, "-c", text], capture_output=True, text=True, check=True)
    failed, cases = json.loads(done.stdout)
    assert "built without CUDA" in failed and cases == 0


def in_worker(python, text: str) -> str:
    """What `text` prints where the judged Python runs the folder prove/ by itself."""
    start = run._BOOT.rpartition("importlib.import_module")[0]
    job = json.dumps({"package": str(FOLDER)})
    done = subprocess.run([python, "-c", start + text, job], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


FOLDER = Path(run.__file__).parent / "prove"


@pytest.mark.torch
def test_the_process_tells_which_files_it_loaded(torch_python, maker, tmp_path):
    (tmp_path / "amp_C.py").write_text("")
    library = maker.healthy(tmp_path / "libraries", "syncbn").rglob("syncbn*.so")
    real = next(library).resolve()
    (tmp_path / "link.so").symlink_to(real)
    said = in_worker(torch_python, f"""
import torch, sys; sys.path.insert(0, {str(tmp_path)!r}); import amp_C
torch.ops.loaded_libraries.add({str(tmp_path / "link.so")!r})
from apexlab_prove.worker import Bench
bench = Bench({{"layouts": {{"amp_C": "module", "syncbn": "library", "mlp_cuda": "module"}}}},
              torch, torch.device("cpu"), None)
print(json.dumps([bench.loaded(name) for name in ("amp_C", "syncbn", "mlp_cuda")]))
""")
    assert json.loads(said) == [[str(tmp_path / "amp_C.py")], [str(real)], []]


RAISED = (  # what the function raises, and what becomes of it
    (TypeError("forward(): incompatible function arguments. The following"), "Unsupported"),
    (RuntimeError("apex::f() expected at most 2 argument(s) but received 3"), "Unsupported"),
    (TypeError("unsupported operand"), "TypeError"),
    (RuntimeError("CUDA error: invalid argument"), "RuntimeError"))


@pytest.fixture(scope="module")
def became(torch_python):
    """{what a function raised: what became of it}, of one process."""
    said = in_worker(torch_python, f"""
import torch, types
from apexlab_prove.case import Case
became = {{}}
for raised in {[error for error, _ in RAISED]!r}:
    def forward(*arguments): raise raised
    sys.modules["syncbn"] = types.SimpleNamespace(forward=forward)
    try: Case(torch, "cpu", "fp32").function("syncbn", "forward")(1)
    except Exception as error: became[repr(raised)] = type(error).__name__
print(json.dumps(became))
""")
    return json.loads(said)


@pytest.mark.torch
@pytest.mark.parametrize(("raised", "expected"), RAISED)
def test_a_function_of_another_signature_is_not_called_broken(became, raised, expected):
    assert became[repr(raised)] == expected


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_is_stopped_no_process_of_a_gpu_is_left(tmp_path, sign):
    (tmp_path / "torch.py").write_text(
        f"import os, time; open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(60)\n")
    text = f"""
from apexlab.verify import run, site
run.run(site.Subject("site", "here", site.here(), None, {{}}, None, (), None, None,
                     prepend=({str(tmp_path)!r},)), {{}}, 2)
"""
    parent = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.DEVNULL)
    place, deadline = tmp_path / "pids", time.monotonic() + 30
    while not (place.exists() and len(place.read_text().split()) == 2):
        assert time.monotonic() < deadline and parent.poll() is None
        time.sleep(0.02)
    parent.send_signal(sign)
    assert parent.wait(timeout=20)
    deadline = time.monotonic() + 5
    for pid in map(int, place.read_text().split()):
        while lives(pid):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
