"""Random numbers that are the same on every Python and every machine.

The bytes are SHAKE-128 (FIPS 202) over the purpose and the seed; integers are read from them in
little-endian order. Nothing here is left to a library that may change its algorithm.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")
_BUFFER = 1024  # words that are drawn at once; how many changes no result


def words(seed: int, purpose: str, count: int) -> array[int]:
    """`count` uniform numbers of 32 bits. Fewer of them are a prefix of more of them."""
    drawn = array("I", hashlib.shake_128(f"apexlab/{purpose}/{seed}".encode()).digest(4 * count))
    if sys.byteorder == "big":
        drawn.byteswap()
    return drawn


class Draws:
    """A sequence of draws for one purpose; another purpose or seed gives another sequence."""

    def __init__(self, seed: int, purpose: str) -> None:
        self._seed = seed
        self._purpose = purpose
        self._buffers = 0
        self._left: list[int] = []

    def _word(self) -> int:
        if not self._left:
            self._left = words(self._seed, f"{self._purpose}/{self._buffers}", _BUFFER).tolist()
            self._buffers += 1
        return self._left.pop()

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit` - 1, each as likely; `limit` is at most 2**32."""
        fair = 2**32 - 2**32 % limit  # beyond it, the low numbers would be likelier
        while (word := self._word()) >= fair:
            pass
        return word % limit

    def many(self, limit: int, count: int) -> list[int]:
        """`count` times `below(limit)`, and the same numbers, in a fifth of the time."""
        fair = 2**32 - 2**32 % limit
        drawn: list[int] = []
        while (lacking := count - len(drawn)) > 0:
            word = self._word()  # which fills the buffer when it is empty
            self._left.append(word)
            taken = self._left[:-lacking - 1:-1]
            del self._left[-len(taken):]
            drawn += [word % limit for word in taken if word < fair]
        return drawn

    def shuffled(self, items: Iterable[Item]) -> list[Item]:
        """The items in an order of which each is as likely (Fisher and Yates)."""
        shuffled = list(items)
        for last in range(len(shuffled) - 1, 0, -1):
            other = self.below(last + 1)
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return shuffled
