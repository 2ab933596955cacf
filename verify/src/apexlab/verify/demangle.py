"""C++ names as people read them, by the demangler of the system's C++ library.

That demangler trusts its input: a few hundred bytes can make it write without end. So it works in
a child process with bounded memory and time, and a name that ends the child stays as it is.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

_MEMORY = 128 << 20
_SECONDS = 1.0  # of processor time for one name; an honest one takes some microseconds
_ALL_SECONDS = 10
_MOST_CHILDREN = 4
_LONGEST = 1 << 16
_MOST_BYTES = 64 << 20  # for all names together

_LENGTH = struct.Struct("<I")
_PLACE = struct.Struct("<Q")


def demangled(names: Iterable[str]) -> dict[str, str]:
    """The readable form of each name; the name itself where it has none."""
    found = {name: name for name in names}
    wanted = [name for name in found if name.startswith("_Z")]
    function = _demangler()
    for _ in range(_MOST_CHILDREN if function else 0):
        answers, stopped_at = _in_a_child(function, wanted)  # type: ignore[arg-type]
        found.update({name: text for name, text in zip(wanted, answers, strict=False) if text})
        if stopped_at is None:
            break
        # What the child had not handed over yet is asked again, but for the name that ended it.
        wanted = wanted[len(answers):stopped_at] + wanted[stopped_at + 1:]
    return found


def readable(name: str) -> str:
    """The readable form of one name."""
    return demangled([name])[name]


@cache
def _demangler() -> Callable[[bytes], bytes] | None:
    """A function that gives b"" for what it cannot demangle; None without a C++ library."""
    try:
        library, system = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
    except OSError:
        return None
    library.__cxa_demangle.restype = ctypes.c_void_p
    library.__cxa_demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p,
                                       ctypes.c_void_p)
    call, free, length = library.__cxa_demangle, system.free, system.strlen
    free.argtypes = length.argtypes = (ctypes.c_void_p,)
    length.restype = ctypes.c_size_t

    def function(name: bytes) -> bytes:
        text = call(name, None, None, None)
        if not text:
            return b""
        size = length(text)
        answer = ctypes.string_at(text, size) if size <= _LONGEST else b""
        free(text)
        return answer

    return function


def _in_a_child(function: Callable[[bytes], bytes], names: list[str],
                ) -> tuple[list[str], int | None]:
    """The answers for the first names, and the place of the name that ended the child, if any."""
    reading, writing = os.pipe()
    place = mmap.mmap(-1, _PLACE.size)  # shared with the child
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        return [], None
    if child == 0:
        _answer(function, names, writing, place)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answers = list(_read(pipe))
    _, status = os.waitpid(child, 0)
    return answers, _PLACE.unpack(place[:])[0] if status else None


def _answer(function: Callable[[bytes], bytes], names: list[str], writing: int,
            place: mmap.mmap) -> None:
    """In the child: never returns."""
    try:
        _bound()
        left = _MOST_BYTES
        with os.fdopen(writing, "wb", buffering=1 << 16) as pipe:
            for index, name in enumerate(names):
                _PLACE.pack_into(place, 0, index)
                signal.setitimer(signal.ITIMER_PROF, _SECONDS)
                text = function(name.encode("utf-8", "backslashreplace")) if left > 0 else b""
                left -= len(text)
                pipe.write(_LENGTH.pack(len(text)) + text)
        os._exit(0)
    finally:
        os._exit(1)


def _bound() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * mmap.PAGESIZE + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (_ALL_SECONDS, _ALL_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _read(pipe: BinaryIO) -> Iterator[str]:
    while len(head := pipe.read(_LENGTH.size)) == _LENGTH.size:
        (size,) = _LENGTH.unpack(head)
        text = pipe.read(size)
        if len(text) < size:
            return
        yield text.decode("utf-8", "replace")
