"""Known failures, told from logs as compilers write them."""

import pytest

from apexlab.build.failures import TABLE, classify, errors_of

LOGS = {
    "disk-full": "/usr/bin/ld: final link failed: No space left on device",
    "memory": "g++: fatal error: Killed signal terminated program cc1plus",
    "header-missing":
        "csrc/softmax.cu:7:10: fatal error: cuda_profiler_api.h: No such file or directory",
    "arch-unsupported": "nvcc fatal   : Unsupported gpu architecture 'compute_70'",
    "ptxas-mismatch": "ptxas /tmp/a.ptx, line 9; fatal : Unsupported .version 9.5; current "
        "version is '9.0'",
    "compiler-new": "crt/host_config.h:138:2: error: #error -- unsupported GNU version! gcc "
        "versions later than 13 are not supported!",
    "compiler-old": "RuntimeError: The current installed version of g++ (0.0.0) is less than the "
        "minimum required version by CUDA 13.0 (6.0.0).",
    "cxx-standard": "ATen/ATen.h:4:2: error: #error C++20 or later compatible compiler is required "
        "to use ATen.",
    "ref-torch": "csrc/mlp.cpp:55: error: cannot convert 'at::DeprecatedTypeProperties' to "
        "'c10::ScalarType'",
    "cuda-mismatch": "RuntimeError: Cuda extensions are being compiled with a version of Cuda that "
        "does not match the version used to compile Pytorch binaries.",
    "library-missing": "/usr/bin/ld: cannot find -lcudart: No such file or directory",
    "option-unknown": "nvcc fatal   : Unknown option '--threads=4'",
    "flag-unknown": "error: option --deprecated_fused_adam not recognized",
    "module-missing": "ModuleNotFoundError: No module named 'packaging'",
    "undeclared": "csrc/x.h:3:1: error: 'uint32_t' does not name a type",
}


@pytest.mark.parametrize("code", LOGS)
def test_each_failure_is_recognised(code):
    log = f"[1/3] g++ -c a.cpp\n{LOGS[code]}\nninja: build stopped: subcommand failed.\n"
    found, cause = classify(log, 1)
    assert found == code
    assert "{" not in cause


def test_every_row_of_the_table_has_a_log_here():
    assert {failure.code for failure in TABLE} == set(LOGS)


@pytest.mark.parametrize(
    ("code", "word"),
    [("header-missing", "cuda_profiler_api.h"), ("arch-unsupported", "compute_70"),
     ("library-missing", "libcudart.so"), ("module-missing", "packaging"),
     ("compiler-new", "13")],
)
def test_the_paragraph_names_the_thing(code, word):
    assert word in classify(LOGS[code], 1)[1]


@pytest.mark.parametrize("log", ["Killed\n", "nvcc error : 'cicc' died due to signal 9 (Kill)\n"])
def test_other_words_for_a_killed_compiler(log):
    assert classify(log, 1)[0] == "memory"


@pytest.mark.parametrize("code", [-9, 137])
def test_killed_without_a_word(code):
    assert classify("[1/9] nvcc a.cu\n", code)[0] == "memory"


def test_a_sound_log_is_no_known_failure():
    log = "building 'amp_C' extension\n[1/2] nvcc -Werror all-warnings a.cu\n"
    assert classify(log, 1)[0] == "unknown"


def test_the_compilers_first_errors_count_and_not_pythons_report_of_them():
    log = "\n".join([
        "a.cpp:3:5: error: first", *[f"a.cpp:{number}: error: more" for number in range(40)],
        "Traceback (most recent call last):", "RuntimeError: Error compiling objects"])
    assert errors_of(log).startswith("  a.cpp:3:5: error: first")
    assert "Traceback" not in errors_of(log)


def test_an_unknown_failure_shows_its_errors():
    log = "\n".join([
        "[1/2] g++ -Werror -c a.cpp", "a.cpp:3:5: error: 'foo' was not declared in this scope",
        *[f"note {number}" for number in range(40)], "ninja: build stopped: subcommand failed."])
    _, cause = classify(log, 1)
    assert "'foo' was not declared" in cause
    assert "note 39" not in cause


def test_a_log_without_errors_shows_its_end():
    assert errors_of("one\ntwo\n\n") == "  one\n  two"
