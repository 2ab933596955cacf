"""The data: a seeded stream of tokens that a model can learn, the same on every Python.

Uniform random tokens cannot be learned, so two losses on them always agree; text would have to be
shipped. This stream has the two things that a small model learns first: some tokens are far more
frequent than others, and a token tells something about the next one.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from dataclasses import dataclass

from apexlab.bench.draws import Draws, words
from apexlab.verify.errors import UsageError

ALGORITHM = "apexlab.stream/1"  # changes when a byte of any stream does
VOCABULARIES = range(2, 2**18 + 1)
SEEDS = range(2**32)

_SLOTS = 2**20  # a draw has 32 bits: 20 choose the slot, one of the others the branch
_FLATTENING = 8  # the rank r has a weight of 1 / (r + 8): no token is nearly all of the stream
_WEIGHT = 2**40  # weights are whole numbers: sums of floats differ between Python versions


@dataclass(frozen=True)
class Stream:
    """Tokens below `vocabulary`. Each is, as likely as not, the one that always may follow the
    token before it, and otherwise drawn by frequency (Zipf's law, with its head flattened).

    Raises UsageError for a vocabulary or a seed out of bounds.
    """

    vocabulary: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, bounds in (("vocabulary", self.vocabulary, VOCABULARIES),
                                    ("seed", self.seed, SEEDS)):
            if type(value) is not int or value not in bounds:
                raise UsageError(f"The {name} of a data stream is a whole number from {bounds[0]} "
                                 f"to {bounds[-1]}, not {value!r}.")

    def tokens(self, count: int) -> array[int]:
        """The first `count` tokens, 4 bytes each in the byte order of this machine. A longer
        stream of the same vocabulary and seed starts with the shorter one."""
        slots = self._slots()
        follower = self._followers(slots)
        token, stream = slots[0], array("i", bytes(4 * count))
        for place, word in enumerate(words(self.seed, f"{ALGORITHM}/tokens", count)):
            token = follower[token] if word & 1 else slots[word >> 12]
            stream[place] = token
        return stream

    def digest(self, tokens: array[int]) -> str:
        """The SHA-256 that a result carries, of the algorithm, the vocabulary, the seed and the
        tokens as little-endian numbers of 4 bytes."""
        little = array("i", tokens)
        if sys.byteorder == "big":
            little.byteswap()
        head = f"{ALGORITHM} {self.vocabulary} {self.seed} {len(tokens)}\n".encode()
        return hashlib.sha256(head + little.tobytes()).hexdigest()

    def _slots(self) -> list[int]:
        """2**20 slots; a token has as many of them as it is frequent, and at least one."""
        tokens = Draws(self.seed, f"{ALGORITHM}/ranks").shuffled(range(self.vocabulary))
        weights = [_WEIGHT // (rank + _FLATTENING) for rank in range(1, self.vocabulary + 1)]
        whole, spare = sum(weights), _SLOTS - self.vocabulary
        shares = [1 + weight * spare // whole for weight in weights]
        shares[0] += _SLOTS - sum(shares)
        slots: list[int] = []
        for token, share in zip(tokens, shares, strict=True):
            slots.extend([token] * share)
        return slots

    def _followers(self, slots: list[int]) -> list[int]:
        """For each token the one that may follow it: often a frequent one, never itself, for a
        token that repeats itself would fill the stream with constant runs."""
        draws = Draws(self.seed, f"{ALGORITHM}/followers")
        followers = []
        for token in range(self.vocabulary):
            follower = slots[draws.below(_SLOTS)]
            while follower == token:
                follower = slots[draws.below(_SLOTS)]
            followers.append(follower)
        return followers
