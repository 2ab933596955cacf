"""The data stream: the same bytes everywhere, and something to learn in them."""

import math
import sys
from array import array
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apexlab.bench import draws as draws_module
from apexlab.bench.draws import Draws, words
from apexlab.bench.model.stream import Stream
from apexlab.verify.errors import UsageError

# As made by CPython 3.10 to 3.13. A change here is a new ALGORITHM: old results would no longer
# be comparable.
GOLDEN = {
    (2, 0, 1000): "4a4c7795fdcae6f9396d810ae8146f218de7a76f55c92eb91d19e387fc39efdc",
    (1024, 0, 5000): "3134f574c1f2874b16bad4c77a31170f2143a5d5a64a2ee12007d12cb1be7ab5",
    (50304, 1, 20000): "959837e5b0d70c02801eb20f8c70639fdeee45761219e5e0f64e3036948312cb",
}


@pytest.mark.parametrize("vocabulary, seed, count", GOLDEN)
def test_the_bytes_are_those_of_every_other_python(vocabulary, seed, count):
    stream = Stream(vocabulary, seed)
    assert stream.digest(stream.tokens(count)) == GOLDEN[vocabulary, seed, count]


def test_draws_are_those_of_every_other_python():
    assert words(0, "test", 2).tolist() == [2372732768, 3838257482]
    assert Draws(7, "test").below(1000) == 594
    assert Draws(7, "test").shuffled("abcdefgh") == list("bdfaghec")


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 3000), st.integers(0, 2**32 - 1), st.integers(0, 500), st.integers(0, 500))
def test_a_longer_stream_starts_with_the_shorter_one(vocabulary, seed, one, other):
    stream = Stream(vocabulary, seed)
    short, long = sorted((one, other))
    tokens = stream.tokens(long)
    assert len(tokens) == long
    assert tokens[:short] == stream.tokens(short)
    assert all(0 <= token < vocabulary for token in tokens)


def test_seed_and_vocabulary_change_the_stream():
    base = Stream(1024, 0).tokens(1000)
    assert base != Stream(1024, 1).tokens(1000)
    assert base != Stream(1025, 0).tokens(1000)


def test_the_digest_tells_streams_and_lengths_apart():
    stream, tokens = Stream(1024, 0), Stream(1024, 0).tokens(100)
    changed = array("i", tokens)
    changed[50] ^= 1
    digests = {stream.digest(tokens), stream.digest(tokens[:99]), stream.digest(changed),
               Stream(1024, 1).digest(tokens), Stream(1025, 0).digest(tokens)}
    assert len(digests) == 5


def learned(tokens, vocabulary, pairs=True):
    """Nats a token of the second half under smoothed counts of single tokens, and of pairs, in
    the first: what a very simple model learns, without torch."""
    half = len(tokens) // 2
    seen, test = tokens[:half], tokens[half:]
    single, pair = Counter(seen), Counter(pairwise(seen))
    loss = 0.0
    for before, token in pairwise(test):
        alone = (single[token] + 1) / (half + vocabulary)
        loss -= math.log((pair[before, token] + 4 * alone) / (single[before] + 4) if pairs
                         else alone)
    return loss / (len(test) - 1)


@pytest.mark.parametrize("vocabulary, count, least", [(1024, 100_000, 2), (8192, 300_000, 3),
                                                      (50304, 600_000, 4)])
def test_the_stream_can_be_learned(vocabulary, count, least):
    tokens = Stream(vocabulary, 0).tokens(count)
    assert learned(tokens, vocabulary) < math.log(vocabulary) - least
    assert learned(tokens, vocabulary) < learned(tokens, vocabulary, pairs=False) - 1


def test_uniform_tokens_cannot_be_learned():
    """The control of the test above."""
    tokens = array("i", (word % 1024 for word in words(0, "uniform", 100_000)))
    assert learned(tokens, 1024) > math.log(1024) - 0.1


@pytest.mark.parametrize("vocabulary", [1024, 50304])
def test_the_stream_is_no_constant_and_uses_its_vocabulary(vocabulary):
    tokens = Stream(vocabulary, 0).tokens(400_000)
    assert Counter(tokens).most_common(1)[0][1] < 0.2 * len(tokens)
    assert len(set(tokens)) > 0.5 * vocabulary
    repeats = sum(one == other for one, other in pairwise(tokens))
    assert repeats < 0.1 * len(tokens)


@pytest.mark.parametrize("vocabulary, seed", [(1, 0), (2**18 + 1, 0), (True, 0), (8.0, 0), (8, -1),
                                              (8, 2**32)])
def test_what_no_stream_can_have_is_refused(vocabulary, seed):
    with pytest.raises(UsageError, match="of a data stream is a whole number"):
        Stream(vocabulary, seed)


def test_the_largest_vocabulary_has_a_slot_for_each_token():
    slots = Stream(2**18, 0)._slots()
    assert len(slots) == 2**20
    assert len(set(slots)) == 2**18


def test_a_machine_of_the_other_byte_order_reads_the_same_numbers(monkeypatch):
    other = "big" if sys.byteorder == "little" else "little"
    here = words(0, "test", 8)
    monkeypatch.setattr(draws_module.sys, "byteorder", other)
    there = words(0, "test", 8)
    there.byteswap()  # what that machine would make of the same memory
    assert here == there


@settings(deadline=None)
@given(st.integers(1, 2**32), st.integers(0, 1000))
def test_draws_stay_below_their_limit(limit, seed):
    assert 0 <= Draws(seed, "test").below(limit) < limit


def test_draws_are_fair():
    draws = Draws(0, "fair")
    counts = Counter(draws.below(6) for _ in range(60_000))
    assert all(abs(count - 10_000) < 400 for count in counts.values())
    places = Counter(Draws(seed, "fair").shuffled("abc")[0] for seed in range(3000))
    assert all(abs(count - 1000) < 120 for count in places.values())


@pytest.mark.parametrize("limit", [1, 3, 200, 1024, 2**31 + 5])
def test_many_draws_are_the_draws_one_by_one(limit):
    """The last limit makes half of the words unfair, so that they are drawn again."""
    one, many = Draws(3, "test"), Draws(3, "test")
    drawn = [*many.many(limit, 1500), *many.many(limit, 0), *many.many(limit, 7)]
    assert drawn == [one.below(limit) for _ in range(1507)]
    assert many.below(9) == one.below(9)
