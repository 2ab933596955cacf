"""What setup.py is asked for."""

from pathlib import Path

import pytest

from apexlab.build.matrix import load
from apexlab.build.request import (
    cxx_std_override,
    hard_coded_std,
    make_request,
    style_of,
)
from apexlab.build.source import Source
from apexlab.verify.arch import parse_archs
from apexlab.verify.errors import UsageError
from apexlab.verify.extensions import CORE_FLAGS

ARCHS = parse_archs("8.0,9.0+PTX")
ENV_SETUP = 'if os.environ.get("APEX_CUDA_EXT") == "1": sys.argv.append("--cuda_ext")'
ARGV_SETUP = 'if "--cuda_ext" in sys.argv: sys.argv.remove("--cuda_ext")'


def source(text):
    return Source(Path("x"), "apex", None, "0" * 64, False, text)


@pytest.fixture(scope="module")
def matrix():
    return load()


def test_an_unknown_ref_gets_the_core_flags_in_the_style_of_its_setup(matrix):
    request = make_request(matrix, source(ENV_SETUP), None, "13.0", "core", ARCHS)
    assert request.style == "env"
    assert request.flags == CORE_FLAGS
    assert {"amp_C", "apex_C", "fused_adam_cuda"} <= set(request.extensions)


def test_variables_carry_the_flags_and_the_architectures(matrix):
    request = make_request(matrix, source(ENV_SETUP), None, "13.0", "core", ARCHS)
    assert request.environment == {
        "TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX", "APEX_CPP_EXT": "1", "APEX_CUDA_EXT": "1",
        "APEX_DEPRECATED_FUSED_ADAM": "1"}
    assert request.arguments == ("bdist_wheel",)


def test_arguments_carry_the_flags_of_an_old_ref(matrix):
    request = make_request(matrix, source(ARGV_SETUP), None, "12.1", "core", ARCHS)
    assert request.arguments == (
        "bdist_wheel", "--cpp_ext", "--cuda_ext", "--deprecated_fused_adam")
    assert request.environment == {"TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX"}


def test_every_ref_of_the_matrix_gives_a_request_with_the_core(matrix):
    for ref in matrix.refs:
        request = make_request(matrix, source(ENV_SETUP), ref.commit, "12.8", "core", ARCHS)
        assert request.style == ref.style
        assert {"amp_C", "fused_layer_norm_cuda"} <= set(request.extensions)


def test_own_targets_go_along(matrix):
    having = [ref for ref in matrix.refs if ref.own_targets]
    assert having
    for ref in having:
        request = make_request(matrix, source(ENV_SETUP), ref.commit, "12.8", "full", ARCHS)
        assert set(request.own_targets) <= set(request.extensions)


def test_the_full_profile_needs_a_known_ref(matrix):
    with pytest.raises(UsageError, match="full needs an Apex commit"):
        make_request(matrix, source(ENV_SETUP), None, "13.0", "full", ARCHS)


def test_no_such_profile(matrix):
    with pytest.raises(UsageError, match="core and full"):
        make_request(matrix, source(ENV_SETUP), None, "13.0", "all", ARCHS)


def test_the_style_is_told_from_the_text():
    assert style_of(ENV_SETUP) == "env"
    assert style_of('env = f"APEX_{flag}"') == "env"
    assert style_of(ARGV_SETUP) == "build-option"


@pytest.mark.parametrize(
    ("wanted", "default", "hard_coded", "forced"),
    [
        ("c++17", "c++17", set(), None),
        ("c++17", "c++17", {17}, None),
        ("c++20", "c++20", set(), None),  # torch's builder sets it by itself
        ("c++20", "c++20", {17}, "c++20"),  # the source would win over torch's default
        ("c++20", "c++17", set(), "c++20"),
        ("c++17", "c++17", {14}, "c++17"),
        ("c++17", "c++17", {20}, None),
    ],
)
def test_the_standard_is_forced_only_where_it_must_be(wanted, default, hard_coded, forced):
    assert cxx_std_override(wanted, default, hard_coded) == forced


def test_hard_coded_standards_are_found():
    assert hard_coded_std(["['-O3', '-std=c++17']", '"-std=gnu++14"', "no"]) == {17, 14}
