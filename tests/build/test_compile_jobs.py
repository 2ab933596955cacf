"""How many compilers run at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apexlab.build.jobs import choose, predict
from apexlab.build.limits import GIB


@pytest.mark.parametrize(
    ("cores", "gib", "archs", "jobs", "threads"),
    [
        (2, 2, 1, 1, 1),  # too little for one of Apex's largest files, and still one is tried
        (2, 6, 6, 1, 1),
        (2, 16, 6, 2, 2),  # two files, or the last one alone on both cores
        (2, 16, 1, 2, 1),
        (16, 6, 6, 1, 1),
        (16, 16, 6, 2, 2),
        (16, 16, 1, 5, 1),  # one architecture leaves nothing for nvcc's threads
        (16, 512, 6, 4, 6),
        (64, 512, 6, 10, 6),
        (1, 512, 6, 1, 1),
    ],
)
def test_the_table(cores, gib, archs, jobs, threads):
    chosen = choose(cores, gib * GIB, archs)
    assert (chosen.jobs, chosen.threads) == (jobs, threads)


@given(st.integers(1, 256), st.integers(1, 2048), st.integers(1, 12),
       st.none() | st.integers(1, 512))
def test_no_choice_may_need_more_than_the_limit(cores, gib, archs, asked):
    chosen = choose(cores, gib * GIB, archs, asked)
    assert chosen.jobs >= 1
    assert 1 <= chosen.threads <= archs
    if (chosen.jobs, chosen.threads) != (1, 1):
        assert chosen.predicted <= chosen.limit
    assert chosen.tight == (predict(1, 1) > chosen.limit)


@given(st.integers(1, 256), st.integers(1, 2048), st.integers(1, 12))
def test_neither_factor_alone_exceeds_the_cores(cores, gib, archs):
    chosen = choose(cores, gib * GIB, archs)
    assert chosen.jobs <= cores
    assert chosen.threads <= cores


def test_asked_for_more_than_fits_is_reduced_and_says_so():
    chosen = choose(16, 6 * GIB, 6, asked=16)
    assert (chosen.jobs, chosen.reduced) == (1, True)


def test_asked_for_what_fits_is_kept():
    chosen = choose(2, 64 * GIB, 1, asked=8)
    assert (chosen.jobs, chosen.reduced) == (8, False)
