"""The few files that matter, read from an image's layers. Nothing of the image is run or unpacked.

What is read is what the digest stands for: each layer is held against its own digest, and what a
later layer removes or replaces is gone.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from apexlab.build.errors import RefusedError
from apexlab.verify.record import IMAGE_PATH

RECORD = str(IMAGE_PATH).lstrip("/")
DPKG = "var/lib/dpkg/status"
_WANTED = re.compile(
    rf"{re.escape(RECORD)}|{re.escape(DPKG)}|(?:.*/)?site-packages/[^/]+\.dist-info/METADATA")
MOST = 16 << 20  # bytes of one file; Debian's list of a full system is below 5 MB
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass(frozen=True)
class Layer:
    """One layer, as the manifest names it."""

    digest: str
    size: int


def read(layers: Iterable[Layer],
         blob: Callable[[str], AbstractContextManager[IO[bytes]]]) -> dict[str, bytes]:
    """Path → content of the files that are wanted, from the lowest layer to the last. Raises
    RefusedError where a layer is not what its digest says, or is no layer."""
    files: dict[str, bytes] = {}
    for layer in layers:
        with blob(layer.digest) as raw:
            reader = _Reader(raw, layer)
            try:
                _apply(files, reader)
            except (tarfile.TarError, zlib.error, EOFError, UnicodeError, OSError) as error:
                reader.finish()  # a broken one is first of all not what was pushed
                raise RefusedError(f"The layer {layer.digest} cannot be read: {error}. Nothing is "
                                   "said about what it holds; push the image again.") from error
            reader.finish()
    return files


class _Reader:
    """Counts and hashes what passes."""

    def __init__(self, raw: IO[bytes], layer: Layer) -> None:
        self.raw, self.layer = raw, layer
        self.seen, self.hash = 0, hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self.raw.read(size)
        self.seen += len(data)
        self.hash.update(data)
        if self.seen > self.layer.size:
            raise self._wrong(f"it is longer than {self.layer.size} bytes")
        return data

    def finish(self) -> None:
        while self.read(1 << 20):
            pass
        found = "sha256:" + self.hash.hexdigest()
        if found != self.layer.digest:
            raise self._wrong(f"its content has {found}")

    def _wrong(self, why: str) -> RefusedError:
        return RefusedError(f"The layer {self.layer.digest} is not what its digest says: {why}. "
                            "The registry was tampered with, or its disk is broken; push again.")


def _apply(files: dict[str, bytes], reader: _Reader) -> None:
    """Put one layer on top of `files`."""
    found: dict[str, bytes] = {}
    removed: list[str] = []
    parents = (str(parent) for path in files for parent in PurePosixPath(path).parents)
    known = {*files, *parents}
    with tarfile.open(fileobj=reader, mode="r|*") as tar:  # type: ignore[call-overload]
        for member in tar:
            path = PurePosixPath("/" + member.name).as_posix().lstrip("/")
            if ".." in path.split("/"):
                raise RefusedError(f"The layer {reader.layer.digest} has a file {member.name!r}, "
                                   "which may be any other. No build of ours writes such a name.")
            name = path.rpartition("/")[2]
            if name == OPAQUE:
                removed.append(path.removesuffix(OPAQUE))
            elif name.startswith(WHITEOUT):
                gone = path.removesuffix(name) + name.removeprefix(WHITEOUT)
                removed += [gone, gone + "/"]
            elif not member.isdir():
                # Whatever takes the place of a file, or of a folder that held one.
                removed += [path, path + "/"] if path in known else []
                if member.isfile() and _WANTED.fullmatch(path):
                    found[path] = _content(tar, member)
    for gone in removed:
        for path in [path for path in files
                     if path == gone or (gone.endswith("/") and path.startswith(gone))]:
            del files[path]
    files.update(found)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > MOST:
        raise RefusedError(f"{member.name} in the image has {member.size >> 20} MB, far more than "
                           "such a file ever has. Build the image again.")
    file = tar.extractfile(member)
    return file.read() if file is not None else b""
