"""Where the dynamic loader would find a library, worked out without loading anything."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

_CACHE = Path("/etc/ld.so.cache")
_MAGIC = b"glibc-ld.so.cache1.1"
_ENTRY = struct.Struct("<iIIIQ")
_HEADER_SIZE = 48
_X86_64, _AARCH64 = 0x0303, 0x0A03  # kind of library in the cache: ELF, and of which machine
_STANDARD = ("/lib64", "/usr/lib64", "/lib", "/usr/lib",
             "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
             "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu")


class Search:
    """Finds libraries by name, in the order of the loader in a process that imported torch."""

    def __init__(self, folders: Iterable[Path], cache: Path = _CACHE) -> None:
        """`folders` are those whose libraries torch has loaded by then."""
        asked = os.environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        self._folders = [*(Path(folder) for folder in asked if folder), *folders]
        self._cache_file = cache
        self._cache: dict[str, str] | None = None

    def find(self, name: str, runpath: Iterable[str] = (), origin: Path | None = None,
             ) -> Path | None:
        """The file behind `name`, or None. `runpath` are the places that the asking library
        names itself, `origin` its folder."""
        own = [Path(part.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(origin or ".")))
               for part in runpath if part]
        cached = self._from_cache().get(name)
        standard = [Path(cached)] if cached else [Path(folder, name) for folder in _STANDARD]
        places = [*(folder / name for folder in (*own, *self._folders)), *standard]
        # Not Path.is_file, which raises for a name of 10,000 letters or a folder that is closed.
        return next((place for place in places if os.path.isfile(place)), None)  # noqa: PTH113

    def _from_cache(self) -> dict[str, str]:
        if self._cache is None:
            try:
                self._cache = parse_cache(self._cache_file.read_bytes())
            except (OSError, ValueError, struct.error):
                # No cache (musl, a bare image) or an unknown form: the standard folders remain.
                self._cache = {}
        return self._cache


def parse_cache(data: bytes) -> dict[str, str]:
    """`/etc/ld.so.cache`: the path of each library of this machine. Raises ValueError."""
    start = data.find(_MAGIC)  # an old cache may come first, in the same file
    if start < 0:
        raise ValueError("not a cache of glibc's loader")
    (count,) = struct.unpack_from("<I", data, start + len(_MAGIC))
    wanted = _AARCH64 if os.uname().machine == "aarch64" else _X86_64
    found: dict[str, str] = {}
    for index in range(count):
        flags, key, value, _, _ = _ENTRY.unpack_from(
            data, start + _HEADER_SIZE + _ENTRY.size * index)
        if flags == wanted:
            found.setdefault(_text(data, start + key), _text(data, start + value))
    return found


def _text(data: bytes, at: int) -> str:
    return os.fsdecode(data[at:data.index(b"\0", at)])
