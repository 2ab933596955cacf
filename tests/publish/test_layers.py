"""Layers that one reader could read in another way than the engine that runs the image, and layers
that are bombs. What is signed has to be what runs."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import tarfile

import pytest
from made_images import digest_of, layer

from apexlab.build.errors import RefusedError
from apexlab.build.publish import contents
from apexlab.build.publish.contents import RECORD

FILE, LINK, FOLDER, HARD = (
    tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE)  # fmt: skip


def read(*layers: bytes) -> bytes | None:
    """The record that is seen in an image of these layers."""
    known = {digest_of(one): one for one in layers}
    named = [contents.Layer(name, len(data)) for name, data in known.items()]
    return contents.read(
        named, lambda name: contextlib.nullcontext(io.BytesIO(known[name]))).get(RECORD)


def archive(*members, headers=None) -> bytes:
    """(name, type, content or where it leads) as an archive; `headers` are for all that follow."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", pax_headers=headers) as tar:
        for name, kind, what in members:
            one = tarfile.TarInfo(name)
            one.type = kind
            if isinstance(what, bytes):
                one.size = len(what)
            else:
                one.linkname = what
            tar.addfile(one, io.BytesIO(what) if isinstance(what, bytes) else None)
    return raw.getvalue()


OLD = archive((RECORD, FILE, b"old"))
BASE = gzip.compress(OLD)
NEW = archive((RECORD, FILE, b"new"))


@pytest.mark.parametrize(("layers", "seen"), [
    # Engines go on to the next member, where tarfile's streams end without a word.
    ([gzip.compress(OLD[:1024]) + gzip.compress(NEW)], b"new"),
    ([NEW], b"new"),
    ([BASE, gzip.compress(archive(("/" + RECORD, FILE, b"new")))], b"new"),
    ([BASE, gzip.compress(archive((RECORD, FOLDER, "")))], None),
    ([BASE, gzip.compress(archive(("a", FILE, b"x"), (RECORD, HARD, "a")))], None),
    ([gzip.compress(archive((RECORD, FILE, b"x"), (RECORD, LINK, "a")))], None),
    ([gzip.compress(archive((RECORD, FILE, b"x"), ("opt/apexlab", LINK, "a")))], None),
    ([gzip.compress(archive((RECORD, FILE, b"x"), ("opt/apexlab/.wh.record.json", FILE, b"")))],
     None),
    ([gzip.compress(archive((RECORD, LINK, "a"))), NEW], b"new"),
    ([BASE, layer({".wh..wh..opq": ""})], None),
    ([BASE, layer({".wh.opt": ""})], None),
], ids=["members", "plain", "from-root", "now-folder", "hard-link", "then-link", "then-folder-link",
        "then-whiteout", "link-then-file", "opaque-root", "whiteout-root"])  # fmt: skip
def test_what_is_seen_is_what_an_engine_would_see(layers, seen):
    assert read(*layers) == seen


TO_RECORD = ("x", LINK, "opt/apexlab")


@pytest.mark.parametrize("layers", [
    [BASE, archive(TO_RECORD, ("x/record.json", FILE, b"evil"))],
    [BASE, archive(TO_RECORD), archive(("x/record.json", FILE, b"evil"))],
    [archive(("x", FILE, b""), headers={"path": RECORD})],
    [BASE, archive(("opt/apexlab/.wh.", FILE, b""))],
    [BASE, archive(("opt/apexlab/.wh...", FILE, b""))],
], ids=["link", "link-below", "for-all", "nothing", "above"])
def test_a_name_that_may_be_another_is_refused(layers):
    with pytest.raises(RefusedError, match="may be any other"):
        read(*layers)


def test_a_link_that_a_folder_took_the_place_of_is_none():
    assert read(archive(TO_RECORD), archive(("x", FOLDER, ""), ("x/a", FILE, b"")), NEW) == b"new"
    assert read(archive(TO_RECORD), archive((".wh.x", FILE, b"")), archive(("x/a", FILE, b"")),
                NEW) == b"new"


@pytest.mark.parametrize("data", [
    bz2.compress(OLD), lzma.compress(OLD), b"\x28\xb5\x2f\xfd" + bytes(100),
    gzip.compress(OLD[:1024] + b"\1" * 512 + NEW),
], ids=["bz2", "xz", "zstd", "no-header"])
def test_what_no_engine_or_not_every_reader_unpacks_is_refused(data):
    with pytest.raises(RefusedError, match="cannot be read"):
        read(data)


def test_many_files_that_are_each_small_enough_fill_no_memory():
    # Half a megabyte, which would be half a gigabyte.
    place = "opt/venv/lib/python3.10/site-packages/a{}.dist-info/METADATA"
    bomb = layer({place.format(number): bytes(contents.MOST) for number in range(32)})
    with pytest.raises(RefusedError, match="far more"):
        read(bomb)


def test_a_header_without_an_end_fills_no_memory():
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 32
    with pytest.raises(RefusedError, match="one of its headers has 4096 MB"):
        read(gzip.compress(header.tobuf() + bytes(1 << 20)))
