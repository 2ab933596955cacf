"""The few files that matter, read from an image's layers. Nothing of the image is run or unpacked.

What is read is what the digest stands for: each layer is held against its own digest, and what a
later layer removes or replaces is gone. What engines may read differently is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from apexlab.build.errors import RefusedError
from apexlab.verify.record import IMAGE_PATH

RECORD = str(IMAGE_PATH).lstrip("/")
DPKG = "var/lib/dpkg/status"
_WANTED = re.compile(
    rf"{re.escape(RECORD)}|{re.escape(DPKG)}|(?:.*/)?site-packages/[^/]+\.dist-info/METADATA")
MOST = 16 << 20  # bytes of one file; Debian's list of a full system is below 5 MB
MOST_OF_ALL = 64 << 20  # a few hundred packages of Python are below 10 MB
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
    tree = _Tree()
    for layer in layers:
        with blob(layer.digest) as raw:
            reader = _Reader(raw, layer)
            try:
                _apply(tree, reader)
            except (tarfile.TarError, zlib.error, EOFError, UnicodeError, OSError) as error:
                reader.finish()  # a broken one is first of all not what was pushed
                raise RefusedError(f"The layer {layer.digest} cannot be read: {error}. Nothing is "
                                   "said about what it holds; push the image again.") from error
            reader.finish()
    return tree.files


class _Reader(io.RawIOBase):
    """Counts and hashes what passes."""

    def __init__(self, raw: IO[bytes], layer: Layer) -> None:
        self.raw, self.layer = raw, layer
        self.seen, self.hash = 0, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._take(len(buffer))
        buffer[:len(data)] = data
        return len(data)

    def finish(self) -> None:
        while self._take(1 << 20):
            pass
        found = "sha256:" + self.hash.hexdigest()
        if found != self.layer.digest:
            raise self._wrong(f"its content has {found}")

    def _take(self, size: int) -> bytes:
        data = self.raw.read(size)
        self.seen += len(data)
        self.hash.update(data)
        if self.seen > self.layer.size:
            raise self._wrong(f"it is longer than {self.layer.size} bytes")
        return data

    def _wrong(self, why: str) -> RefusedError:
        return RefusedError(f"The layer {self.layer.digest} is not what its digest says: {why}. "
                            "The registry was tampered with, or its disk is broken; push again.")


class _Forward:
    """What tarfile wants of a file, over a stream that goes forward alone. tarfile's own streams
    stop at the end of the first of several gzip members, and take a header of any size."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.stream, self.at, self.last = stream, 0, b""

    def read(self, size: int) -> bytes:
        if size > MOST:
            raise tarfile.ReadError(f"one of its headers has {size >> 20} MB")
        self.last = self.stream.read(size)
        self.at += len(self.last)
        return self.last

    def tell(self) -> int:
        return self.at

    def seek(self, to: int) -> None:
        while self.at < to and self.read(min(to - self.at, 1 << 20)):
            pass


class _Tree:
    """What is known of the file system, layer upon layer: the files that are wanted, and the
    symbolic links, below which a name means another one."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: set[str] = set()
        self.held = 0  # bytes read into memory, replaced ones too

    def drop(self, path: str, keep: Iterable[str] = ()) -> None:
        """`path` and all below it is gone, but for what is in `keep`."""
        gone = {one for one in (*self.files, *self.links)
                if f"{one}/".startswith(f"{path}/" if path else "")}.difference(keep)
        self.links -= gone
        for one in gone:
            self.files.pop(one, None)

    def names(self) -> Iterator[str]:
        """Everything that is known, and the folders around it."""
        for path in (*self.files, *self.links):
            yield from (path, *_parents(path))


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _apply(tree: _Tree, reader: _Reader) -> None:
    """Put one layer on top of the tree."""
    known, new = set(tree.names()), set[str]()
    unpacked = _unpacked(reader)
    with tarfile.open(fileobj=unpacked, mode="r:") as tar:  # type: ignore[call-overload]
        while (member := tar.next()) is not None:
            tar.members.clear()  # it would keep them all
            path = _path(member, tree, tar)
            folder, _, name = path.rpartition("/")
            if name == OPAQUE:
                tree.drop(folder, keep=new)
            elif name.startswith(WHITEOUT):
                tree.drop(path.removesuffix(name) + name.removeprefix(WHITEOUT))
            elif member.isdir():
                if path in tree.files or path in tree.links:
                    tree.drop(path)
            else:
                # Whatever takes the place of a file, or of a folder that held one.
                if path in known:
                    tree.drop(path)
                if member.issym():
                    tree.links.add(path)
                elif member.isfile() and _WANTED.fullmatch(path):
                    tree.files[path] = _content(tar, member, tree)
                else:
                    continue
                new.add(path)
                known.update((path, *_parents(path)))
    if unpacked.last.strip(b"\0"):
        raise tarfile.ReadError("it ends with something that is no header")


def _unpacked(reader: _Reader) -> _Forward:
    """The archive itself. By its first bytes, as engines do, whatever the manifest calls it."""
    stream = io.BufferedReader(reader, 1 << 20)
    start = stream.peek(4)
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        raise tarfile.ReadError("it is packed with zstd and not with gzip")
    return _Forward(gzip.GzipFile(fileobj=stream) if start.startswith(b"\x1f\x8b") else stream)


def _path(member: tarfile.TarInfo, tree: _Tree, tar: tarfile.TarFile) -> str:
    """Where the member goes, from the root. Raises RefusedError where that is not certain."""
    path = PurePosixPath("/" + member.name).as_posix().lstrip("/")
    climbs = {"..", WHITEOUT, f"{WHITEOUT}.", f"{WHITEOUT}.."}.intersection(path.split("/"))
    if climbs or tar.pax_headers or not tree.links.isdisjoint(_parents(path)):
        raise RefusedError(f"A layer of the image has a file {member.name!r}, which may be any "
                           "other. No build of ours writes such a name.")
    return path


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, tree: _Tree) -> bytes:
    tree.held += member.size
    if member.size > MOST or tree.held > MOST_OF_ALL:
        raise RefusedError(f"{member.name} in the image has {member.size >> 20} MB, with what was "
                           f"read before {tree.held >> 20} MB, far more than such files ever have. "
                           "Build the image again.")
    file = tar.extractfile(member)
    return file.read() if file is not None else b""
