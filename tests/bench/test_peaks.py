"""Peak rates, and the dtype that a step really used."""

import pytest

from apexlab.bench.planning.preset_file import find_preset
from apexlab.bench.result.peaks import PEAKS, dtype_used, find_peak, mfu


@pytest.mark.parametrize("precision, error, dtype", [
    ("amp-bf16", None, "bf16"), ("amp-fp16", 3e-4, "fp16"), ("fp16-weights", None, "fp16"),
    ("fp32", 2e-7, "fp32"), ("fp32", 3e-4, "tf32"), ("tf32", 3e-4, "tf32"),
    ("tf32", 2e-7, "fp32"), ("tf32", None, None), ("fp32", None, None)])
def test_the_dtype_is_the_one_that_ran(precision, error, dtype):
    assert dtype_used(precision, error) == dtype


@pytest.mark.parametrize("device", [
    None, "", "NVIDIA H200 NVL", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "made-up CPU", "NVIDIA H100"])
def test_a_gpu_that_is_not_in_the_table_has_no_peak(device):
    assert find_peak(device, "bf16") is None


def test_a_dtype_that_is_not_known_has_no_peak():
    assert find_peak("NVIDIA H200", None) is None
    assert mfu(find_preset("tiny"), 1.0, None) is None


def test_mfu_by_hand():
    """gpt-small needs 14.0 TFLOP a step of 16,384 tokens; in 47 ms that is 30 % of an H200."""
    found = mfu(find_preset("gpt-small"), 0.047, find_peak("NVIDIA H200", "bf16"))
    assert found == pytest.approx(0.30, abs=0.005)


def test_every_peak_is_dense_and_has_a_source():
    for peak in PEAKS:
        assert peak.source
        assert peak.tf32 == pytest.approx(peak.bf16 / 2, rel=1e-3)
        assert peak.fp32 < peak.tf32
    names = [name for peak in PEAKS for name in peak.names]
    assert len(names) == len(set(names))
