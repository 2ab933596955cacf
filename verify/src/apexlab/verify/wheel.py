"""An Apex wheel, unpacked as far as it is judged: shared objects, Python code, the build record.

A wheel is a stranger's archive. Only names of known form are taken out, links are refused, and
what is written has an upper bound, whatever the archive says about its sizes.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from apexlab.verify import site
from apexlab.verify.errors import CannotError, UnreadableError
from apexlab.verify.found import find_files
from apexlab.verify.record import MAX_BYTES as MAX_RECORD
from apexlab.verify.record import Record, parse_record
from apexlab.verify.scratch import scratch

MAX_MEMBERS = 100_000
MAX_BYTES = 4 << 30  # a wheel with everything and debug information is about 0.2 GB unpacked
MAX_DIRECTORY = 16 << 20  # of names, which zipfile reads in at once
_STEP = 1 << 20
_TAG = re.compile(r"-cp(\d)(\d+)-(?:cp\d+|abi3)(t?)-([^-]+)\.whl", re.ASCII)
_PACKAGE = "apex/__init__.py"


class _Bounded(io.FileIO):
    """A file that gives no more at once than a sound directory of names needs."""

    def read(self, size: int | None = -1, /) -> bytes:  # type: ignore[override,unused-ignore]
        if size is not None and size > MAX_DIRECTORY:
            raise zipfile.BadZipFile(f"its list of members has {size} bytes")
        return super().read(size) or b""


@contextmanager
def unpacked(path: Path, record: Record | None = None, record_path: str | None = None,
             ) -> Iterator[site.Subject]:
    """The wheel `path` as a subject, in a temporary folder that lives as long as the context.

    Raises UnreadableError for an archive that cannot be read or is not to be trusted.
    """
    with scratch("wheel") as root:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
                raise UnreadableError(path, "it is not a regular file")
            with _Bounded(path) as file, zipfile.ZipFile(file) as archive:
                names = _checked_names(path, archive)
                _extract(path, archive, names, root)
                inside = _record_inside(path, archive, names)
        except UnreadableError:
            raise
        except (OSError, RuntimeError, NotImplementedError, ValueError, EOFError, KeyError,
                zlib.error, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
            # RuntimeError is what zipfile raises for an encrypted member.
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CannotError(f"{path} cannot be unpacked into {root}: {error.strerror}. Make "
                                  "room there, or set TMPDIR to another folder.") from error
            raise UnreadableError(path, f"it is not a sound wheel ({error})") from error
        if record is None and inside is not None:
            record, record_path = inside
        yield _subject(path, names, root, record, record_path)


def _subject(path: Path, names: list[str], root: Path, record: Record | None,
             record_path: str | None) -> site.Subject:
    python = site.here()
    tag = _TAG.search(path.name)
    if tag:
        version, abi = f"{tag[1]}.{tag[2]}", f"{tag[1]}{tag[2]}{tag[3]}"
        # An abi3 wheel, with libraries for torch.ops, is for every later Python too.
        later = "-abi3-" in path.name and sys.version_info >= (int(tag[1]), int(tag[2]))
        if abi != python.abi and not later:
            python = site.Python(version, abi, None)
    infos = [name.removesuffix(".dist-info/METADATA").partition("-")[2] for name in names
             if name.endswith(".dist-info/METADATA")]
    package = root / "apex" if _PACKAGE in names else None
    return site.Subject(
        "wheel", path.name, python, site.find_torch(site.running_folders()),
        find_files([root], python.abi, package), package, tuple(infos), record, record_path,
        paths=(str(root), *sys.path), platform=tag[4] if tag else "")


def _checked_names(path: Path, archive: zipfile.ZipFile) -> list[str]:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise UnreadableError(path, f"it has more than {MAX_MEMBERS} members")
    names = [member.filename for member in members]
    name, most = Counter(names).most_common(1)[0] if names else ("", 0)
    if most > 1:
        raise UnreadableError(path, f"it holds {name!r} twice")
    for member in members:
        parts = PurePosixPath(member.filename).parts
        if member.filename.startswith("/") or ".." in parts or "\\" in member.filename:
            raise UnreadableError(path, f"the member {member.filename!r} points out of the archive")
        # The others unpack a small piece to a gigabyte in one go.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UnreadableError(
                path, f"the member {member.filename!r} is compressed as no wheel is")
    return names


def _wanted(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if file.endswith(".py"):
        return name.startswith("apex/")  # Apex's own modules, which the level load imports
    return folder in ("", "apex", "apex/_extensions") and file.endswith(".so")


def _extract(path: Path, archive: zipfile.ZipFile, names: list[str], root: Path) -> None:
    written = 0
    for name in filter(_wanted, names):
        member = archive.getinfo(name)
        if stat.S_ISLNK(member.external_attr >> 16):
            raise UnreadableError(path, f"the member {name!r} is a link")
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("xb") as file:
            # In pieces and counted: the sizes in the archive's directory are only a claim.
            while piece := source.read(_STEP):
                written += len(piece)
                if written > MAX_BYTES:
                    raise UnreadableError(path, f"it unpacks to more than {MAX_BYTES >> 30} GiB")
                file.write(piece)


def _record_inside(path: Path, archive: zipfile.ZipFile, names: list[str],
                   ) -> tuple[Record, str] | None:
    inside = re.compile(r"apex-[^/]*\.dist-info/" + re.escape(site.RECORD_NAME))
    name = next((name for name in names if inside.fullmatch(name)), None)
    if name is None:
        return None
    with archive.open(name) as file:
        where = f"{path.name}!{name}"
        return parse_record(file.read(MAX_RECORD + 1), where), where
