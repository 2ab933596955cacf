"""The fatbin reader: what it understands, and that it never takes nonsense for emptiness."""

import random

import pytest

from apexlab.verify import fatbin, kernels
from apexlab.verify.errors import UnreadableError


def read(data: bytes):
    return fatbin.read_containers(memoryview(data), "x.so")[1]


def test_targets_are_named_as_reports_name_them(maker):
    data = maker.fatbin("sm_80", "sm_90a", "sm_100f", "compute_90", "compute_120f")
    assert [entry.target for entry in read(data)] == [
        "sm_80", "sm_90a", "sm_100f", "compute_90", "compute_120f"]


def test_containers_may_be_many_with_zeros_between(maker):
    data = maker.fatbin("sm_80") + bytes(4096) + maker.fatbin("sm_90") + bytes(200_000)
    assert [entry.target for entry in read(data)] == ["sm_80", "sm_90"]


def test_longer_entry_headers_are_followed(maker):
    data = maker.container(maker.entry(2, 80, b"x" * 8, header=112), maker.entry(1, 90, b"y"))
    assert [entry.target for entry in read(data)] == ["sm_80", "compute_90"]


def test_an_empty_section_has_no_entries():
    assert read(b"") == ()
    assert read(bytes(100)) == ()


@pytest.mark.parametrize(("change", "reason"), [
    (lambda make: b"\x01" * 64, "unknown data"),
    (lambda make: make.fatbin("sm_90")[:10], "ends inside a container header"),
    (lambda make: make.fatbin("sm_90")[:-8], "does not fit"),
    (lambda make: make.container(make.entry(2, 90, b""), version=2), "unknown version"),
    (lambda make: make.container(make.entry(7, 90, b"")), "unknown kind 7"),
    (lambda make: make.container(make.entry(2, 5, b"")), "architecture 5"),
    (lambda make: make.container(make.entry(2, 90, b"", header=64)[:40]), "inside an entry"),
    (lambda make: make.container(
        make.entry(2, 90, b"")[:4] + b"\0\0\0\0" + make.entry(2, 90, b"")[8:]), "does not fit"),
    (lambda make: make.container(
        make.entry(2, 90, b"")[:8] + b"\xff" * 8 + make.entry(2, 90, b"")[16:]), "does not fit"),
])
def test_what_is_not_understood_is_said_with_the_reason(maker, change, reason):
    with pytest.raises(UnreadableError, match=reason) as caught:
        read(change(maker))
    assert caught.value.part == "fatbin"


def test_a_flood_of_entries_is_refused(maker, monkeypatch):
    monkeypatch.setattr(fatbin, "MAX_ENTRIES", 10)
    with pytest.raises(UnreadableError, match="more than 10 entries"):
        read(maker.container(*[maker.entry(2, 90, b"")] * 11))


def count(data: bytes):
    return kernels.count([fatbin.Fatbin(memoryview(data), read(data))])


def test_kernels_are_counted_once_over_all_architectures(maker):
    data = maker.fatbin("sm_80", "sm_90", "compute_90", kernels=("_Z1av", "_Z1bv"))
    assert count(data) == 2
    assert count(maker.fatbin("sm_90", kernels=())) == 0


@pytest.mark.parametrize("flag", [fatbin.LZ4, fatbin.ZSTD])
def test_compressed_code_has_targets_but_no_known_kernels(maker, flag):
    data = maker.container(maker.entry(2, 90, b"?" * 64, flags=flag))
    assert [entry.target for entry in read(data)] == ["sm_90"]
    assert count(data) is None


@pytest.mark.parametrize("payload", [b"no ELF at all", b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_a_cubin_of_unknown_form_is_not_an_empty_one(maker, payload):
    assert count(maker.container(maker.entry(2, 90, payload))) is None


def test_changed_bytes_give_an_answer_or_a_reason(maker):
    good = maker.fatbin("sm_80", "sm_90a", "compute_90", kernels=("_Z1av", "_Z1bv"))
    chance = random.Random(4)
    refused = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF,
                                                               chance.randrange(256)))
        try:
            count(bytes(data))
        except UnreadableError:
            refused += 1
    assert 0 < refused < 3000
