"""What is found before any compiler runs; pure facts in, findings out."""

from dataclasses import replace
from pathlib import Path

import pytest

from apexlab.build import prepare
from apexlab.build.errors import PreflightError
from apexlab.build.jobs import choose
from apexlab.build.limits import GIB, Limit
from apexlab.build.preflight import Host, judge
from apexlab.build.probe import TorchFacts
from apexlab.build.request import Request
from apexlab.build.toolkit import PROFILER_HEADER, TORCH_HEADERS, Compiler, Toolkit
from apexlab.verify.arch import parse_archs
from apexlab.verify.errors import UsageError

PACKAGES = {"torch": "2.6.0", "setuptools": "80.9", "wheel": "0.45", "ninja": "1.13",
            "packaging": "25.0"}
TORCH = TorchFacts("cp311", "linux-x86_64", PACKAGES, "2.6.0+cu124", "abc", "12.4", False,
                   "c++17", "/site/torch")
TOOLKIT = Toolkit(Path("/usr/local/cuda"), "the usual place", "12.4.131",
                  ("sm_70", "sm_80", "sm_90", "compute_90"),
                  frozenset({*TORCH_HEADERS, PROFILER_HEADER}), None, True)
HOST = Host(TORCH, TOOLKIT, Compiler("g++", "gcc", "12.2.0"), {}, "13", "9", 50 * GIB, "/tmp",
            choose(8, 32 * GIB, 2), True)
REQUEST = Request("env", ("cuda_ext",), ("amp_C",), "core", parse_archs("8.0,9.0+PTX"), {})


def codes(host, request=REQUEST):
    return [finding.code for finding in judge(host, request)]


def torch(**changes):
    return replace(HOST, torch=replace(TORCH, **changes))


def toolkit(**changes):
    return replace(HOST, toolkit=replace(TOOLKIT, **changes))


def gcc(version):
    return replace(HOST, compiler=Compiler("g++", "gcc", version))


def memory(gib):
    return replace(HOST, jobs=choose(8, int(gib * GIB), 2))


def test_a_good_host_has_no_findings():
    assert codes(HOST) == []


@pytest.mark.parametrize(
    ("host", "code"),
    [
        (torch(packages={**PACKAGES, "torch": None}, cuda=None), "torch-missing"),
        (torch(error="ImportError: libcudart.so.12"), "torch-broken"),
        (torch(cuda=None, version="2.6.0+cpu"), "torch-cpu"),
        (torch(packages={**PACKAGES, "ninja": None}), "packages-missing"),
        (torch(packages={**PACKAGES, "setuptools": "63.4"}), "package-old"),
        (torch(headers=False), "python-headers"),
        (replace(HOST, toolkit=None), "nvcc-missing"),
        (replace(HOST, toolkit=None, environ={"CUDA_HOME": "/usr/local/cuda:/opt/cuda"}),
         "cuda-home-list"),
        (toolkit(version="12.6.85"), "cuda-mismatch"),
        (toolkit(version="13.0.88"), "cuda-mismatch"),
        (toolkit(headers=frozenset({*TORCH_HEADERS})), "headers-missing"),
        (toolkit(headers=frozenset({PROFILER_HEADER})), "headers-missing"),
        (toolkit(cudart_linkable=False), "cudart-missing"),
        (replace(HOST, compiler=None), "compiler-missing"),
        (replace(HOST, environ={"CC": "no-such"}), "compiler-missing"),
        (replace(HOST, environ={"CC": "gcc-14"}, cc=Compiler("gcc-14", "gcc", "14.1.0")),
         "compiler-new"),
        (gcc("14.1.0"), "compiler-new"),
        (gcc("8.3.0"), "compiler-old"),
        (torch(unknown_archs=("9.0+PTX",)), "arch-torch"),
        (toolkit(targets=("sm_80",)), "arch-nvcc"),
        (replace(HOST, disk_free=GIB), "disk-low"),
        (replace(HOST, noexec=True), "scratch-noexec"),
        (memory(0.5), "memory-low"),
        (memory(2), "memory-tight"),
    ],
)
def test_each_thing_in_the_way_is_found(host, code):
    assert codes(host) == [code]


def test_without_the_profiler_header_a_source_that_does_not_include_it_builds():
    host = replace(toolkit(headers=frozenset({*TORCH_HEADERS})), needs_profiler_header=False)
    assert codes(host) == []


def test_a_runtime_without_a_link_is_enough():
    assert codes(toolkit(cudart_linkable=False, cudart=Path("libcudart.so.13"))) == []


def test_a_toolkit_that_the_matrix_does_not_know_sets_no_bounds():
    assert codes(replace(gcc("99.0.0"), gcc_max=None, gcc_min=None)) == []


def test_an_architecture_that_nobody_builds_for_may_be_unknown_to_torch():
    assert codes(torch(unknown_archs=("12.0",))) == []


def test_an_architecture_with_a_suffix_is_left_to_nvcc():
    request = replace(REQUEST, archs=parse_archs("9.0a"))
    assert codes(HOST, request) == []


def test_volta_with_cuda_13_names_what_nvcc_knows():
    request = replace(REQUEST, archs=parse_archs("7.0"))
    host = toolkit(version="12.4.1", targets=("sm_75", "sm_120"))
    (finding,) = judge(host, request)
    assert finding.usage
    assert "for 7.0." in finding.message
    assert "7.5 12.0" in finding.message


def prepared(host, request=REQUEST):
    return prepare.Prepared(prepare.Ask(Path("s"), Path("o")), None, request, host,
                           Limit(32 * GIB, "MemTotal"), None, tuple(judge(host, request)))


def test_all_things_in_the_way_are_told_together():
    host = replace(gcc("14.1.0"), disk_free=GIB, toolkit=None)
    with pytest.raises(PreflightError) as caught:
        prepare.refuse(prepared(host))
    text = str(caught.value)
    assert "3 things are in the way" in text
    assert text.count("\n- ") == 3


def test_a_request_that_nothing_can_meet_is_a_usage_error():
    with pytest.raises(UsageError):
        prepare.refuse(prepared(HOST, replace(REQUEST, archs=parse_archs("12.0"))))


def test_a_warning_does_not_stop_the_build():
    host = memory(2)
    assert [finding.warning for finding in judge(host, REQUEST)] == [True]
    prepare.refuse(prepared(host))
