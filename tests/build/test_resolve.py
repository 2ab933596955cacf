"""From loose words to a plan, and what is said when there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apexlab.build.matrix import load
from apexlab.build.nearest import listed
from apexlab.build.resolve import plan_of, resolve
from apexlab.verify.errors import ApexlabError, UsageError

MATRIX = load()
SHORT = "5c8860f1"
REF = "5c8860f1dc79f9edc3c1ba4050fe841207834564"
NEWEST = "6424da3b4faa6c8f062da4a48c424fff3f02d42d"
UNKNOWN = "0123456789abcdef0123456789abcdef01234567"


def plan(torch, cuda, **words):
    return resolve(MATRIX, torch, cuda, **words)


def refusal(*words, **more):
    with pytest.raises(UsageError) as error:
        plan(*words, **more)
    assert error.value.exit_code == 2
    message = str(error.value)
    assert len(message.split("\n\n")) == 1 and message == message.strip()
    return message


def test_a_minor_means_its_newest_patch():
    assert plan("2.4", "12.4") == plan("2.4.1", "12.4")
    assert plan("2.4", "12.4").torch == "2.4.1"


def test_every_cell_resolves_and_has_its_own_slug():
    plans = [plan_of(MATRIX, cell) for cell in MATRIX.cells]
    assert len({one.slug for one in plans}) == len(plans)
    assert all(one.python_is_os for one in plans)


def test_a_cell_on_pypi_needs_no_index_and_another_needs_its_own():
    pypi, index = plan("2.6", "12.4"), plan("2.4", "12.4")
    assert (pypi.torch_requirement, pypi.torch_index) == ("torch==2.6.0", "")
    assert index.torch_requirement == "torch==2.4.1+cu124"
    assert index.torch_index == "https://download.pytorch.org/whl/cu124"


def test_a_plan_carries_what_the_cell_says():
    one = plan("2.4", "12.4")
    assert (one.cuda_image, one.os, one.python, one.cxx_std) == (
        "12.4.1", "ubuntu22.04", "3.10", "c++17")
    assert one.ref == REF and one.style == "env" and one.slug == "torch2.4-cuda12.4"
    assert one.arch_list == "7.0;7.5;8.0;8.6;9.0+PTX"
    assert one.evidence == "reported" and "apex_wheels" in one.evidence_source
    assert len(one.extensions) == 13


def test_the_torch_that_needs_a_newer_python_moves_to_a_newer_system():
    one = plan("2.15", "13.2")
    assert (one.os, one.python, one.cxx_std) == ("ubuntu24.04", "3.12", "c++20")


@pytest.mark.parametrize(("torch", "cuda"), [("2.6", "12.4"), ("2.11", "13.0"), ("2.14", "13.0")])
def test_offline_moves_a_cell_to_the_system_that_needs_no_registry(torch, cuda):
    one = plan(torch, cuda, base="offline")
    assert (one.os, one.python, one.python_is_os, one.torch_index) == ("debian12", "3.11", True, "")
    assert one.ref == plan(torch, cuda).ref


@pytest.mark.parametrize(("torch", "cuda", "why"), [
    ("2.6", "12.6", "the toolkit of CUDA 12.6 cannot be put together from packages"),
    ("2.4", "12.4", "PyPI's torch 2.4.1 is built for another CUDA"),
    ("2.9", "13.0", "PyPI's torch 2.9.1 is built for another CUDA"),
])  # fmt: skip
def test_what_offline_cannot_build_names_what_it_can(torch, cuda, why):
    message = refusal(torch, cuda, base="offline")
    assert why in message
    assert "2.6 with CUDA 12.4" in message and "2.11 with CUDA 13.0" in message


def test_a_cuda_without_wheels_names_both_ways_out():
    assert refusal("2.4", "12.9") == (
        "torch 2.4 has no wheels for CUDA 12.9. torch 2.4.1 comes for 11.8, 12.1 and 12.4; "
        "CUDA 12.9 comes with torch 2.8, 2.9, 2.11 and 2.13.\n"
        "Try: make image TORCH=2.4 CUDA=12.4 or make image TORCH=2.8 CUDA=12.9")


@pytest.mark.parametrize(("torch", "cuda", "said"), [
    ("9", "12.4", "TORCH='9' is not a version. Write it as 2.4, or as 2.4.1."),
    ("", "12.4", "TORCH is empty."), ("2.4", "", "CUDA is empty."), ("2.4", " ", "CUDA is empty."),
    ("2.4", "twelve", "CUDA='twelve' is not a version. Write it as 12.4."),
    ("2.4", "12.4.1", "CUDA='12.4.1' is not a version"),
    ("2.4.1+cu124", "12.4", "is not a version"), ("٢.٤", "12.4", "is not a version"),
    ("2.4\n", "12.4", "is not a version"),
    ("9.1", "12.4", "There is no torch 9.1 here. CUDA 12.4 comes with torch 2.4, 2.5 and 2.6."),
    ("2.4", "12.5", "no torch comes for CUDA 12.5; the matrix builds torch 2.3 to 2.15"),
    ("2.4.0", "12.4", "torch 2.4.0 is not built here: for CUDA 12.4, the matrix has torch 2.4.1"),
    ("2.4", "11.8", "builds torch 2.4 for CUDA 11.8, although there are wheels for it."),
    ("2.10", "12.9", "No cell of the matrix builds torch 2.10 for CUDA 12.9. torch 2.10 is built"),
    ("2.1", "12.1", "The oldest torch that is built is 2.3."),
])  # fmt: skip
def test_what_cannot_be_met_says_why(torch, cuda, said):
    assert said in refusal(torch, cuda)


@pytest.mark.parametrize(("torch", "cuda"), [
    ("9.1", "12.4"), ("9.1", "99.9"), ("2.4", "12.5"), ("2.4.0", "12.4"), ("2.1", "12.1"),
    ("2.10", "12.9"), ("2.2", "11.8"), ("2.15", "13.0"),
])  # fmt: skip
def test_each_command_that_is_suggested_resolves(torch, cuda):
    commands = refusal(torch, cuda).split("Try: ")[1].split(" or ")
    for command in commands:
        words = dict(word.split("=") for word in command.split()[2:])
        assert plan(words["TORCH"], words["CUDA"])


def test_architectures_override_the_cell():
    assert plan("2.4", "12.4", archs="8.0, 9.0a").arch_list == "8.0;9.0a"
    assert plan("2.4", "12.4", archs="8.9").arch_list == "8.9"


@pytest.mark.parametrize(("archs", "said"), [
    ("7.0", "7.0 (nvcc 13.0 cannot target it and torch 2.11.0+cu130 has no code for it)"),
    ("8.0 7.0+PTX 5.2", "5.2 (nvcc"), ("9.0f", "9.0f (nvcc 13.0 cannot target it)"),
    ("8.6;compute", "'compute'"), ("", "empty"), ("9.0 9.0", "twice"),
    ("11.0", "11.0 (torch 2.11.0+cu130 has no code for it)"),
])  # fmt: skip
def test_architectures_that_cannot_be_built_are_refused(archs, said):
    assert said in refusal("2.11", "13.0", archs=archs)


def test_a_refusal_of_architectures_names_the_cells_own():
    assert "own architectures are 7.5 8.0 8.6" in refusal("2.11", "13.0", archs="7.0")


def test_another_ref_has_no_evidence():
    one = plan("2.4", "12.4", apex_ref="10417aceddd7d5d05d7cbf7b0fc2daad1105f8b4")
    assert (one.evidence, one.evidence_source) == ("none", "")


def test_the_cells_own_ref_keeps_its_evidence_in_capitals_too():
    assert plan("2.4", "12.4", apex_ref=REF.upper()) == plan("2.4", "12.4")


def test_an_unknown_ref_is_asked_as_the_newest_known_one_is():
    one = plan("2.11", "13.0", apex_ref=UNKNOWN, profile="full")
    assert one.ref == UNKNOWN and one.evidence == "none"
    assert one.flags == plan("2.11", "13.0", profile="full").flags


@pytest.mark.parametrize(("ref", "said"), [
    (SHORT, f"Give {REF}."), ("master", "40 hexadecimal digits"), ("", "APEX_REF=''"),
    ("bf903a2d519a5c6d2e5b4defb05784fdd9813e87", "it fits CUDA >=11.8,<13"),
])  # fmt: skip
def test_a_ref_that_cannot_be_used_is_refused(ref, said):
    assert said in refusal("2.9", "13.0", apex_ref=ref)


def test_another_python_is_not_the_systems():
    one = plan("2.4", "12.4", python="3.12")
    assert one.python == "3.12" and not one.python_is_os


@pytest.mark.parametrize(("python", "base", "said"), [
    ("3.14", "nvidia", "no wheel for Python 3.14. It comes for 3.9, 3.10, 3.11, 3.12 and 3.13"),
    ("", "nvidia", "(empty)"), ("three", "nvidia", "three"),
    ("3.9", "nvidia", "it needs Python 3.10."), ("3.12", "offline", "has Python 3.11 alone"),
])  # fmt: skip
def test_a_python_that_cannot_be_had_is_refused(python, base, said):
    assert said in refusal("2.6", "12.4", python=python, base=base)


def test_full_has_more_flags_than_core_and_none_that_the_ref_lost():
    old, new = plan("2.8", "12.8", profile="full"), plan("2.11", "13.0", profile="full")
    assert "fmha" in old.flags and "fmha" not in new.flags
    assert set(new.extensions) > set(plan("2.11", "13.0").extensions)


@pytest.mark.parametrize("words", [{"profile": "most"}, {"profile": ""}, {"base": "centos"}])
def test_a_profile_or_base_that_does_not_exist_names_those_that_do(words):
    assert "It is one of " in refusal("2.4", "12.4", **words)


def test_lists_read_as_english():
    assert [listed(words) for words in ("", "a", "ab", "abc")] == [
        "none", "a", "a and b", "a, b and c"]


WORDS = st.one_of(st.text(max_size=12), st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}"))
KNOWN = st.sampled_from([(cell.torch, cell.cuda) for cell in MATRIX.cells])


@given(st.one_of(st.tuples(WORDS, WORDS), KNOWN), st.none() | WORDS, st.none() | WORDS,
       st.none() | WORDS, st.sampled_from(["core", "full", "x"]),
       st.sampled_from(["nvidia", "offline", "x"]))
def test_any_words_give_a_plan_or_one_clear_error(pair, python, ref, archs, profile, base):
    try:
        one = plan(*pair, python=python, apex_ref=ref, archs=archs, profile=profile, base=base)
    except ApexlabError as error:
        assert error.exit_code == 2 and str(error).strip()
    else:
        assert one.extensions and one.archs
