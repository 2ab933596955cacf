"""Unpacks the payload of a fatbin entry: LZ4 blocks and zstd frames, as nvcc writes them.

Nothing has to be installed for it. LZ4 is done by the system's library if there is one, else here;
zstd by whatever this Python or this system has. The size of a result is known before, and nothing
is unpacked beyond it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from apexlab.verify.fatbin import Entry

LARGEST = 128 << 20  # of one entry; the largest seen is 34 MB
_LONGEST_RUN = 255

Unpacked = bytes | memoryview
Decoder = Callable[[bytes, int], Unpacked]


class CannotUnpack(Exception):
    """Why a payload could not be unpacked; completes "its code is ..."."""


def payload(buffer: memoryview, entry: Entry, most: int = LARGEST) -> memoryview:
    """The code of an entry, unpacked to at most `most` bytes if it is compressed.

    Raises CannotUnpack.
    """
    stored = buffer[entry.start:entry.end]
    if entry.compression == "none":
        return stored
    unpack = {"lz4": _lz4, "zstd": _zstd}.get(entry.compression)
    if unpack is None:
        raise CannotUnpack("compressed in an unknown way")
    if not 0 < entry.size <= min(LARGEST, most):
        raise CannotUnpack(f"said to be {entry.size} bytes long")
    if not 0 < entry.packed <= len(stored):
        raise CannotUnpack("compressed to nothing")
    unpacked = unpack(bytes(stored[:entry.packed]), entry.size)
    if len(unpacked) != entry.size:
        raise CannotUnpack("damaged: it has another length than its header says")
    return memoryview(unpacked)


def _lz4(data: bytes, size: int) -> Unpacked:
    library = _library("liblz4.so.1")
    return lz4_block(data, size) if library is None else _by_liblz4(library, data, size)


def lz4_block(data: bytes, size: int) -> bytes:
    """One LZ4 block of `size` bytes, unpacked. Raises CannotUnpack for anything else."""
    out = bytearray()
    at = 0
    try:
        while True:
            token = data[at]
            count, at = _length(data, at + 1, token >> 4)
            if at + count > len(data) or len(out) + count > size:
                raise CannotUnpack("damaged: its literals do not fit")
            out += data[at:at + count]
            at += count
            if at == len(data):  # the last sequence has no match
                return bytes(out)
            offset = data[at] | data[at + 1] << 8
            count, at = _length(data, at + 2, token & 15)
            count += 4
            if not 0 < offset <= len(out) or len(out) + count > size:
                raise CannotUnpack("damaged: a match does not fit")
            start = len(out) - offset
            piece = out[start:start + count]
            # A match may reach into what it is about to write: then it repeats itself.
            out += piece if offset >= count else (piece * (count // offset + 1))[:count]
    except IndexError:
        raise CannotUnpack("damaged: it ends too early") from None


def _length(data: bytes, at: int, count: int) -> tuple[int, int]:
    """A length whose first four bits are `count`, and where it ends."""
    if count == 15:
        while True:
            more = data[at]
            at += 1
            count += more
            if more != _LONGEST_RUN:
                break
    return count, at


def _by_liblz4(library: Any, data: bytes, size: int) -> Unpacked:
    out = ctypes.create_string_buffer(size)
    got = library.LZ4_decompress_safe(data, out, len(data), size)
    if got < 0:
        raise CannotUnpack("damaged: liblz4 refuses it")
    return memoryview(out).cast("B")[:got]


def _zstd(data: bytes, size: int) -> Unpacked:
    decoder = zstd_decoder()
    if decoder is None:
        raise CannotUnpack("compressed with zstd, and this system has nothing that unpacks it "
                           "(libzstd.so.1, the package zstandard, or Python 3.14)")
    try:
        return decoder(data, size)
    except CannotUnpack:
        raise
    except Exception as error:  # each of the three has errors of its own
        raise CannotUnpack(f"damaged: {error}") from error


@cache
def zstd_decoder() -> Decoder | None:
    """What unpacks zstd here; None if nothing does."""
    for find in (_from_python, _from_package, _from_library):
        decoder = find()
        if decoder is not None:
            return decoder
    return None


def _from_python() -> Decoder | None:
    try:
        from compression.zstd import ZstdDecompressor  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    # One byte more than there should be: a longer frame is seen, and goes no further.
    return lambda data, size: bytes(ZstdDecompressor().decompress(data, max_length=size + 1))


def _from_package() -> Decoder | None:
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None

    def decode(data: bytes, size: int) -> bytes:
        # It would make room for whatever the frame says of itself, and not for our size.
        if zstandard.frame_content_size(data) not in (-1, size):
            raise CannotUnpack("damaged: its frame has another length than its header says")
        return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=size))

    return decode


def _from_library() -> Decoder | None:
    library = _library("libzstd.so.1")
    if library is None:
        return None
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = (
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    library.ZSTD_isError.argtypes = (ctypes.c_size_t,)

    def decode(data: bytes, size: int) -> Unpacked:
        out = ctypes.create_string_buffer(size)
        got = library.ZSTD_decompress(out, size, data, len(data))
        if library.ZSTD_isError(got):
            raise CannotUnpack("damaged: libzstd refuses it")
        return memoryview(out).cast("B")[:got]

    return decode


@cache
def _library(file: str) -> Any:
    try:
        return ctypes.CDLL(file)
    except OSError:
        return None
