"""A library of the environment, asked for the symbols that it defines through its `.gnu.hash`.

torch's libraries have hundreds of thousands of symbols. The hash table answers for one name in a
few reads, whatever the size of the library, which pyelftools' own reading of it does not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from apexlab.verify.elf import MAX_NAME, MAX_NAME_BYTES, MAX_SYMBOLS, MAX_TAGS, map_file
from apexlab.verify.errors import UnreadableError

_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_LONGEST_CHAIN = 4096  # ten in libtorch_cpu.so

# What following an offset that lies comes to.
_LIES = (struct.error, ValueError, IndexError, OverflowError)


def gnu_hash(name: bytes) -> int:
    """The hash of a symbol's name, as the loader computes it."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


class Library:
    """One library, mapped. `defines` answers for a name; raises UnreadableError if damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = map_file(path)
        try:
            self._open()
        except _LIES as error:
            raise self._damaged(error) from error

    def defines(self, name: bytes, value: int | None = None) -> bool:
        """Whether the library defines `name`; `value` is its gnu_hash, if it is known already."""
        if self._names is not None:
            return name in self._names
        try:
            return any(
                self._matches(index, name)
                for index in self._candidates(gnu_hash(name) if value is None else value))
        except _LIES as error:
            raise self._damaged(error) from error

    def _open(self) -> None:
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise UnreadableError(self.path, "not a 64-bit little-endian ELF file")
        (table,) = struct.unpack_from("<Q", self._data, 32)
        size, count = struct.unpack_from("<HH", self._data, 54)
        if size != _SEGMENT.size:
            raise ValueError("program headers of an unknown size")
        segments = [_SEGMENT.unpack_from(self._data, table + size * i) for i in range(count)]
        self._loads = [(s[3], s[2], s[5]) for s in segments if s[0] == _PT_LOAD]
        dynamic = next((s for s in segments if s[0] == _PT_DYNAMIC), None)
        if dynamic is None:
            raise ValueError("no dynamic segment")
        size = min(dynamic[5], MAX_TAGS * _DYNAMIC.size)
        tags = dict(_DYNAMIC.iter_unpack(self._data[dynamic[2]:dynamic[2] + size]))
        self._symbols = self._offset(tags.get(_DT_SYMTAB, 0))
        self._strings = self._offset(tags.get(_DT_STRTAB, 0))
        self._names: frozenset[bytes] | None = None
        if _DT_GNU_HASH in tags:
            self._open_hash(self._offset(tags[_DT_GNU_HASH]))
        elif _DT_HASH in tags:
            self._names = frozenset(self._all_names(self._offset(tags[_DT_HASH])))
        else:
            raise ValueError("no hash table")

    def _offset(self, address: int) -> int:
        """Where an address of the loaded library lies in the file."""
        for start, offset, size in self._loads:
            if start <= address < start + size:
                return int(address - start + offset)
        raise ValueError(f"address {address:#x} is not in the file")

    def _open_hash(self, at: int) -> None:
        buckets, self._first, bloom, self._shift = struct.unpack_from("<IIII", self._data, at)
        if not buckets or not bloom:
            raise ValueError("an empty hash table")
        self._bucket_count, self._bloom_count = buckets, bloom
        self._bloom = at + 16
        self._buckets = self._bloom + 8 * bloom
        self._chains = self._buckets + 4 * buckets

    def _candidates(self, value: int) -> Iterator[int]:
        """The indexes of the symbols whose hash is `value`."""
        (word,) = struct.unpack_from(
            "<Q", self._data, self._bloom + 8 * (value // 64 % self._bloom_count))
        if not (word >> value % 64) & (word >> (value >> self._shift) % 64) & 1:
            return
        (index,) = struct.unpack_from(
            "<I", self._data, self._buckets + 4 * (value % self._bucket_count))
        if index < self._first:
            return
        for place in range(index, index + _LONGEST_CHAIN):
            (other,) = struct.unpack_from(
                "<I", self._data, self._chains + 4 * (place - self._first))
            if other | 1 == value | 1:
                yield place
            if other & 1:
                return
        raise ValueError("a hash chain without end")

    def _matches(self, index: int, name: bytes) -> bool:
        at, _, _, section, _, _ = _SYMBOL.unpack_from(self._data, self._symbols + 24 * index)
        start = self._strings + at
        return bool(section) and self._data[start:start + len(name) + 1] == name + b"\0"

    def _all_names(self, at: int) -> Iterator[bytes]:
        # Libraries without a GNU hash table are rare and small; the old table gives the count.
        _, count = struct.unpack_from("<II", self._data, at)
        if count > MAX_SYMBOLS:
            raise ValueError("symbols without end")
        left = MAX_NAME_BYTES
        for index in range(1, count):
            entry = _SYMBOL.unpack_from(self._data, self._symbols + 24 * index)
            if entry[3]:
                start = self._strings + entry[0]
                end = self._data.find(b"\0", start, start + MAX_NAME)
                left -= end - start + 1
                if end < 0 or left < 0:
                    raise ValueError("names without end")
                yield self._data[start:end]

    def _damaged(self, error: Exception) -> UnreadableError:
        return UnreadableError(self.path, f"its symbol tables are damaged ({error})")
