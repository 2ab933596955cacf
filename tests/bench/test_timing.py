"""The timing of a scenario on a CPU: blocks, warm-up, data, memory, and what spoils them."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from apexlab import bench, verify

pytestmark = pytest.mark.torch
SIDE = Path(__file__).with_name("time_side.py")
PARTS = ":".join(str(Path(part.__file__).parents[2]) for part in (bench, verify))


@pytest.fixture(scope="module")
def found(torch_python, tmp_path_factory):
    done = subprocess.run(
        [torch_python, SIDE, tmp_path_factory.mktemp("text")], capture_output=True, text=True,
        timeout=300, env={**os.environ, "PYTHONPATH": PARTS})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_blocks_are_timed_per_iteration_and_inside_the_window(found):
    run = found["measured"]
    assert len(run["seconds"]) == 3
    assert run["done"] == run["ran"] == 3 * run["per_block"]
    assert run["per_block"] == math.ceil(0.03 / run["step"])
    begin, end = run["window"]
    blocks = sum(run["seconds"]) * run["per_block"]
    assert 0 <= begin < begin + blocks <= end <= run["took"]
    assert run["events"] == []
    assert run["losses"][1] < run["losses"][0]


def test_every_window_and_block_is_told_with_its_step(found):
    lines = found["measured"]["lines"]
    steps = [step for _, step in lines]
    assert [at for at, _ in lines] == ["warm-up"] * (len(lines) - 3) + ["block"] * 3
    assert steps == sorted(set(steps))


def test_a_block_has_as_many_steps_as_its_time_takes(found):
    steps, seconds = found["block_length"]
    assert 5 <= steps <= 10
    assert all(0.01 <= each < 0.03 for each in seconds)


def test_the_warm_up_ends_when_two_windows_agree_or_says_that_none_did(found):
    warming = found["warming"]
    assert warming["even"][0]
    steady, steps = warming["slow at first"]
    assert steady
    assert steps > 12
    assert warming["never even"] == [False, 40]


def test_the_warm_up_goes_on_until_the_loss_scale_is_settled(found):
    steady, steps = found["scale_settles"]
    assert steady
    assert steps == 14  # the first window of two without an overflow, and one more


def test_a_loss_that_is_no_number_ends_the_run_and_names_its_step(found):
    for word, (kind, message, counted) in zip(("nan", "inf"), found["not_a_number"], strict=True):
        assert kind == "MeasureError"
        assert message.startswith(f"The loss is {word} at step 7,")
        assert counted == 0


def test_a_block_with_a_skipped_step_is_void_and_measured_again(found):
    skips = found["skips"]
    assert skips["none"] == [0, 3, 3, 1024.0]
    assert skips["one"] == [1, 3, 4, 512.0]


def test_steps_that_are_skipped_again_and_again_are_no_result(found):
    kind, message = found["skips"]["ever"]
    assert kind == "MeasureError"
    assert "skipped optimizer steps in 6 blocks" in message


def test_a_skip_is_found_behind_a_scale_that_grew_and_a_growth_alone_is_none(found):
    assert found["skips"]["hidden"] == [1024.0, 1024.0, True]
    assert found["skips"]["grown"] == [1024.0, 4096.0, False]


def test_nothing_inside_a_block_waits_for_the_device(found):
    assert found["host_waits"] == [0, 1]


def test_the_pool_is_the_stream_in_turn_without_waiting(found):
    pool = found["pool"]
    assert pool.pop("about") == {"kind": "stream", "digest": pool.pop("digest"), "batches": 64}
    assert pool == {"in_order": True, "shifted": True, "in_turn": True, "different": 64,
                    "waited": None}


def test_ranks_share_the_rows_of_the_doubled_batch(found):
    assert found["shared_out"] == [True, True, True]


def test_a_text_comes_whole_in_every_epoch_and_in_another_order(found):
    loader = found["loader"]
    assert loader["about"] == {"kind": "text", "digest": "made up", "sequences": 20}
    assert loader["epochs"] == [True, True]
    assert loader["order"]
    assert loader["two_ranks"]
    assert loader["types"] == ["torch.int64", "torch.int64"]
    assert loader["waited"] > 0


def test_a_slow_loader_is_waited_for_and_the_result_says_how_long(found):
    assert 0.03 < found["slow_loader"] < 0.1  # two sequences a step, 0.02 seconds each


def test_a_cpu_has_the_memory_of_its_process_and_no_other(found):
    memories = found["memories"]
    process = memories["peaks"].pop("process")
    assert 0.5 * memories["most"] < process < 1.1 * memories["most"]
    assert set(memories["peaks"].values()) == {None}
    assert list(memories["peaks"]) == ["allocated", "reserved", "active", "retries"]
    assert memories["optimizer"] is None
    assert memories["steps"] == 3


def test_what_does_not_fit_is_told_as_out_of_memory(found):
    ending, why = found["no_memory"]
    assert ending == "failed"
    assert why.startswith("out of memory: step 5 does not fit. 144115188075855872 bytes")
    assert "smaller batch" in why


def test_an_error_that_the_compiler_wrapped_is_told_by_its_cause(found):
    ending, why = found["wrapped_by_dynamo"]
    assert ending == "failed"
    assert why == r"step 1: BackendCompilerFailed, from KeyError: 'first line\nsecond line'"


def test_a_limit_of_recompilations_is_no_time_of_compiled_code(found):
    within, beyond = found["recompiles"]
    assert within is None
    assert beyond[0] == "MeasureError"
    assert "ran the rest uncompiled" in beyond[1]


def test_a_graph_on_several_gpus_is_not_available(found):
    ending, why = found["graph_on_two"]
    assert ending == "unavailable"
    assert why.startswith("A CUDA graph is measured on one GPU alone")
