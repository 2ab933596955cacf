"""The ELF reader: the facts of a sound file, and the reason for each that is not."""

import contextlib
import hashlib
import os
import random
import resource
import struct
import tracemalloc

import pytest

from apexlab.verify.binary import cxx_abi, is_torchs, read_binary
from apexlab.verify.errors import UnreadableError


@pytest.fixture
def sound(maker, folder):
    maker.torch(folder)
    return maker.extension(
        folder, "amp_C", code=maker.fatbin("sm_80", "sm_90", "compute_90"),
        calls=("_ZN3c105ErrorEv", "cublasGemmEx"),
        more="extern int optional(void) __attribute__((weak)); int w(void) {return optional();}",
        needs=(folder / "torch/lib/libc10.so", folder / "nvidia/cu12/lib/libcudart.so.12"))


def test_the_facts_of_an_extension(sound):
    binary = read_binary(sound)
    assert binary.machine == "x86_64"
    assert binary.sha256 == hashlib.sha256(sound.read_bytes()).hexdigest()
    assert binary.size == sound.stat().st_size
    assert {"libc10.so", "libcudart.so.12"} <= set(binary.needed)
    assert binary.cuda_major == 12
    assert binary.targets == ("sm_80", "sm_90")
    assert binary.ptx == ("compute_90",)
    assert binary.kernels == 1
    assert binary.pyinit == ("amp_C",)


def test_undefined_symbols_are_the_strong_ones_without_a_version(sound):
    undefined = read_binary(sound).undefined
    assert {"_ZN3c105ErrorEv", "cublasGemmEx", "PyModule_Create2"} <= set(undefined)
    assert "optional" not in undefined


def test_versioned_symbols_are_left_to_their_library(maker, folder):
    path = maker.library(folder / "x.so", "int puts(const char *); int f(void) {return puts(0);}")
    assert "puts" not in read_binary(path).undefined


def test_a_library_without_device_code_has_none(maker, folder):
    binary = read_binary(maker.library(folder / "x.so", "int f;"))
    assert (binary.targets, binary.ptx, binary.kernels) == ((), (), 0)
    assert binary.cuda_major is None


def test_relocatable_device_code_does_not_count(maker, folder, tmp_path):
    (tmp_path / "code").write_bytes(maker.fatbin("sm_90"))
    section = f'__asm__(".section __nv_relfatbin,\\"a\\"\\n.incbin \\"{tmp_path}/code\\"\\n");'
    assert read_binary(maker.library(folder / "x.so", section)).targets == ()


@pytest.mark.parametrize(("symbols", "abi"), [
    (["_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"], "old"),
    (["_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"],
     "new"),
    (["_ZN3c104cuda9SetDeviceEa", "printf"], "unknown"),
    (["_ZNSt7__cxx1112basic_stringIcE"], "unknown"),
    (["_ZN2at3FooE17basic_string_viewIcE"], "unknown"),
])
def test_the_cxx_abi_is_told_by_torchs_own_names(symbols, abi):
    assert cxx_abi(symbols) == abi


def refused(path) -> str:
    with pytest.raises(UnreadableError) as caught:
        read_binary(path)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 1
    return caught.value.reason


@pytest.mark.parametrize(("content", "reason"), [
    (b"", "empty"),
    (b"hello", "not an ELF file"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    (b"\x7fELF\x02\x01", "truncated"),
    (b"\x7fELF\x01\x01" + bytes(100), "not a 64-bit little-endian"),
    (b"\x7fELF\x02\x01" + bytes(100), "no section table"),
])
def test_files_that_are_something_else(tmp_path, content, reason):
    path = tmp_path / "amp_C.so"
    path.write_bytes(content)
    assert reason in refused(path)


def test_places_that_are_no_files(tmp_path):
    assert "regular file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "regular file" in refused(tmp_path / "pipe")
    assert "cannot be opened" in refused(tmp_path / "absent")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_says_so(sound, part):
    data = sound.read_bytes()
    sound.write_bytes(data[:int(len(data) * part)])
    assert "truncated" in refused(sound)


def test_an_object_file_is_no_library(sound):
    data = bytearray(sound.read_bytes())
    struct.pack_into("<H", data, 16, 1)
    sound.write_bytes(data)
    assert "not a linked library (ET_REL)" in refused(sound)


@pytest.mark.parametrize(("offset", "form", "value", "reason"), [
    (40, "<Q", 1 << 62, "truncated"),  # the section table far outside
    (40, "<Q", (1 << 64) - 1, "truncated"),
    (60, "<H", 0xFFFF, "damaged"),  # 65,535 sections
    (58, "<H", 1, "damaged"),  # of one byte each
    (62, "<H", 0xFFFE, "damaged"),  # names in a section that there is not
    (32, "<Q", 1 << 63, "program headers"),
    (56, "<H", 0xFFFF, "program headers"),
])
def test_hostile_headers_get_a_reason(sound, offset, form, value, reason):
    data = bytearray(sound.read_bytes())
    struct.pack_into(form, data, offset, value)
    sound.write_bytes(data)
    assert reason in refused(sound)


def sections(data: bytes):
    table, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    return [table + 64 * index for index in range(count)]


@pytest.mark.parametrize("field", [24, 32, 40, 4])  # offset, size, link, type
@pytest.mark.parametrize("value", [0, 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_hostile_section_headers_end_in_an_answer_or_a_reason(sound, field, value):
    good = sound.read_bytes()
    refused_ones = 0
    for section in sections(good):
        data = bytearray(good)
        struct.pack_into("<I", data, section + field, value)
        sound.write_bytes(data)
        try:
            read_binary(sound)
        except UnreadableError:
            refused_ones += 1
    assert refused_ones


@pytest.mark.parametrize("kind", [6, 11])  # the dynamic section, the dynamic symbols
@pytest.mark.parametrize("filling", [b"\0", b"\1"])
def test_a_table_of_a_gigabyte_is_refused_at_once_and_in_little_memory(sound, kind, filling):
    data = bytearray(sound.read_bytes())
    place = next(at for at in sections(data) if struct.unpack_from("<I", data, at + 4)[0] == kind)
    struct.pack_into("<QQ", data, place + 24, len(data), 1 << 30)
    with sound.open("wb") as file:
        file.write(data + filling * (4 << 20))
        file.truncate(1 << 31)
    before = resource.getrusage(resource.RUSAGE_SELF)
    refused_or_read(sound)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 5
    # Not the resident memory, in which the pages of the mapped file are counted.
    assert peak_of_heap(sound) < 64 << 20


def refused_or_read(path) -> None:
    with contextlib.suppress(UnreadableError):
        read_binary(path, digest=False)


def peak_of_heap(path) -> int:
    tracemalloc.start()
    refused_or_read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_thousands_of_changed_files_give_an_answer_or_a_reason(sound):
    good = sound.read_bytes()
    # Where structure is: the headers, the sections at the start, and the section table.
    table, = struct.unpack_from("<Q", good, 40)
    chance = random.Random(7)
    outcomes = {True: 0, False: 0}
    for round_ in range(3000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 8)):
            start, stop = chance.choice(((0, 64), (64, 2048), (table, len(data)), (0, len(data))))
            data[chance.randrange(start, min(stop, len(data)))] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        if round_ % 10 == 0:
            del data[chance.randrange(len(data)):]
        sound.write_bytes(data)
        try:
            read_binary(sound)
            outcomes[True] += 1
        except UnreadableError:
            outcomes[False] += 1
    assert outcomes[True] and outcomes[False]


# Device code that is there is never said to be absent.

WRAPPER = ('__asm__(".section .nvFatBinSegment,\\"aw\\"\\n.long 0x466243b1, 1\\n.quad 0, 0\\n'
           '.previous\\n");')


@pytest.fixture
def coded(maker, folder):
    """An extension with device code and with the wrapper by which the host code registers it."""
    return maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), more=WRAPPER)


def header_of(data: bytes, name: bytes) -> int:
    """Where the header of the section `name` lies."""
    names, = struct.unpack_from("<H", data, 62)
    strings, = struct.unpack_from("<Q", data, sections(data)[names] + 24)
    return next(at for at in sections(data)
                if data[strings + struct.unpack_from("<I", data, at)[0]:].startswith(name + b"\0"))


@pytest.mark.parametrize(("field", "form", "value"), [
    (0, "<I", 0),  # without a name
    (4, "<I", 8),  # of a type that has no bytes in the file
    (24, "<Q", 1 << 62),  # past the end
    (24, "<Q", (1 << 64) - 1),
    (32, "<Q", 0),  # of no length
    (32, "<Q", 1 << 63),
])
def test_a_changed_header_does_not_make_device_code_vanish(coded, field, form, value):
    data = bytearray(coded.read_bytes())
    struct.pack_into(form, data, header_of(data, b".nv_fatbin") + field, value)
    if field == 24:  # a section of the type NULL is not checked against the file by its type
        struct.pack_into("<I", data, header_of(data, b".nv_fatbin") + 4, 0)
    coded.write_bytes(data)
    with pytest.raises(UnreadableError):
        read_binary(coded)


def test_the_names_of_sections_are_taken_from_no_other_table(coded):
    good = coded.read_bytes()
    own, = struct.unpack_from("<H", good, 62)
    for other in range(len(sections(good))):
        data = bytearray(good)
        struct.pack_into("<H", data, 62, other)
        coded.write_bytes(data)
        if other != own:
            assert "names of its sections" in refused(coded)


def test_a_name_of_a_section_without_an_end_is_damage(coded):
    data = bytearray(coded.read_bytes())
    at = header_of(data, b".nv_fatbin")
    struct.pack_into("<I", data, at, 0xFFFFFF00)
    coded.write_bytes(data)
    assert "names of its sections" in refused(coded)


def test_fewer_fatbins_than_the_host_registers_are_said(maker, folder):
    path = maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), more=WRAPPER * 2)
    assert "registers 2 fatbins, but 1 were found" in refused(path)
    alone = maker.extension(folder, "syncbn", more=WRAPPER)
    assert "registers 1 fatbins, but 0 were found" in refused(alone)


def test_a_fatbin_section_of_zeros_is_not_taken_for_no_code(maker, folder):
    assert "0 were found" in refused(maker.extension(folder, "amp_C", code=bytes(4096)))


@pytest.mark.parametrize(("symbol", "torchs"), [
    ("_ZN3c105ErrorE", True), ("_ZNK2at6Tensor4sizeEv", True), ("_ZTIN3c105ErrorE", True),
    ("aoti_torch_empty", True), ("torch_call_dispatcher", True), ("_ZN4apex3runEv", False),
    ("cublasGemmEx", False), ("_ZN6torchy3runEv", False),
])
def test_whose_a_missing_symbol_is_decides_what_is_said(symbol, torchs):
    # Another torch, or a source file that was left out.
    assert is_torchs(symbol) == torchs
