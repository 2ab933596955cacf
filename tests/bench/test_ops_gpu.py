"""The clocks of `bench ops` on a GPU, with torch alone."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest

from apexlab import bench, verify

pytestmark = pytest.mark.gpu
SIDE = Path(__file__).with_name("gpu_ops_side.py")
PARTS = ":".join(str(Path(part.__file__).parents[2]) for part in (bench, verify))
LARGE = 2 * 4 * 2**28  # bytes that the large addition reads and writes


@pytest.fixture(scope="module")
def found(gpu):
    done = subprocess.run([gpu.python, SIDE], env={**gpu.environ, "PYTHONPATH": PARTS},
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_profiler_gives_the_times(found):
    assert found["why"] == ""


def test_a_large_addition_runs_at_the_rate_of_a_copy(found):
    rate = LARGE / found["large"] / 1e3
    assert 0.7 * found["copy"] < rate < 1.1 * found["copy"]


def test_events_and_the_profiler_agree_about_a_long_kernel(found):
    assert math.isclose(found["events"], found["large"], rel_tol=0.05)


def test_what_fits_into_the_cache_is_faster_hot_than_cold(found):
    assert found["hot"] < 0.8 * found["cold"]


def test_a_call_of_two_kernels_is_the_sum_of_both(found):
    assert math.isclose(found["both"], found["large"] + found["cold"], rel_tol=0.1)


def test_every_provider_of_torch_is_measured_by_every_clock(found):
    kinds = ("cold", "hot", "host", "call")
    for op, dtype, direction, provider, state, why, us, least, error in found["points"]:
        where = (op, dtype, direction, provider, why)
        if provider.startswith("apex"):
            assert (state, why) == ("not-available", "Apex is not installed here."), where
        elif provider.startswith("torch"):
            assert state == "measured", where
            assert all(len(us[kind]) == 2 and min(us[kind]) >= 1 for kind in kinds), where
            assert error["error"] <= error["limit"], where
            assert least["call"] >= 0.9 * least["hot"], where
            assert min(least[kind] for kind in kinds) > 1, where
    assert len(found["points"]) == 7 + 8 + 8 + 4
