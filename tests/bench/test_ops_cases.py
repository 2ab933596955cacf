"""What `bench ops` measures, and by whom."""

from __future__ import annotations

import pytest

from apexlab.bench.ops.cases import NORMS, OPS, cases, settings
from apexlab.bench.ops.judge import mode
from apexlab.bench.ops.providers import PROVIDERS, TITLES, left_out, providers
from apexlab.bench.planning.preset import numbers_of
from apexlab.bench.planning.preset_file import find_preset

GPU = cases(OPS, find_preset("gpt-small"), "cuda", False)
QUICK = cases(OPS, find_preset("gpt-small"), "cuda", True)
CPU = cases(OPS, find_preset("cpu"), "cpu", True)


def names(every, op, **same):
    return {case.name for case in every if case.op == op
            and all(getattr(case, key) == value for key, value in same.items())}


def test_adam_is_measured_on_small_large_and_real_tensors():
    lists = {case.name: case for case in GPU if case.op == "adam" and case.dtype == "float32"}
    assert set(lists) == {"256 x 64 Ki", "4 x 4 Mi", "4000 x 4096", "gpt-small"}
    assert numbers_of(lists["256 x 64 Ki"].sizes) == numbers_of(lists["4 x 4 Mi"].sizes) == 2**24
    assert numbers_of(lists["gpt-small"].sizes) == find_preset("gpt-small").shape.parameters()
    assert names(GPU, "adam", dtype="bfloat16") == {"4 x 4 Mi", "gpt-small"}


@pytest.mark.parametrize("op", NORMS)
def test_norms_are_measured_in_three_precisions_both_ways(op):
    mine = [case for case in GPU if case.op == op]
    assert {(mode(vars(case)), case.direction) for case in mine} == {
        (word, direction) for word in ("fp32", "bf16", "autocast")
        for direction in ("forward", "forward+backward")}
    assert names(GPU, op) == {f"width {width}" for width in (768, 1024, 4096, 8192)}
    for case in mine:
        (rows, width), = case.sizes
        assert 2**26 - width < rows * width <= 2**26


def test_quick_is_a_part_of_the_whole_but_for_the_size_of_norms():
    where = {(case.op, case.name, mode(vars(case)), case.direction) for case in GPU}
    quick = {(case.op, case.name, mode(vars(case)), case.direction) for case in QUICK}
    assert quick < where
    assert sum(case.numbers for case in QUICK) < sum(case.numbers for case in GPU) / 4


def test_a_cpu_gets_small_cases():
    assert max(case.numbers for case in CPU) < 2**20
    assert {case.op for case in CPU} == set(OPS)


def test_only_what_is_asked_for_is_measured_in_a_fixed_order():
    found = cases(["rmsnorm", "adam"], find_preset("gpt-small"), "cuda", True)
    assert list(dict.fromkeys(case.op for case in found)) == ["adam", "rmsnorm"]


def test_both_directions_of_a_setting_are_measured_side_by_side():
    for group in settings(GPU):
        assert len({case.setting for case in group}) == 1
        assert len(group) == (1 if group[0].op == "adam" else 2)
    assert len({group[0].setting for group in settings(GPU)}) == len(settings(GPU))


def test_every_operation_has_torch_and_apex_and_every_provider_a_title():
    for case in GPU:
        by = [provider.package for provider in providers(case)]
        assert "torch" in by
        assert "apex" in by
    assert {provider.name for provider in PROVIDERS} == set(TITLES)
    assert all((provider.extension is not None) == (provider.package == "apex")
               for provider in PROVIDERS)


def test_torchs_norm_in_16_bits_is_a_control_of_autocast_alone():
    for case in GPU:
        by = {provider.name for provider in providers(case)}
        assert ("torch-lowp" in by) == case.autocast


@pytest.mark.parametrize(("every", "device", "quick", "most"), [
    (GPU, "cuda", False, 14), (QUICK, "cuda", True, 3), (CPU, "cpu", True, 0)])
def test_few_cases_are_compiled_and_the_others_say_why_not(every, device, quick, most):
    compiled = [(group[0], provider) for group in settings(every)
                for provider in providers(group[0]) if provider.compiled]
    left = [left_out(case, provider, device, quick) for case, provider in compiled]
    assert 0 <= left.count("") <= most
    assert left.count("") > 0 or most == 0
    assert all(why == "" or why.startswith("left out") for why in left)


def test_nothing_is_left_out_but_compiling_and_one_loop():
    for case in GPU:
        for provider in providers(case):
            why = left_out(case, provider, "cuda", False)
            assert not why or provider.compiled or (
                provider.name, case.name) == ("torch-loop", "4000 x 4096")
