"""`apexlab inspect`: what it tells of a shared object, and of what it cannot read."""

import contextlib
import ctypes
import json
import struct

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apexlab.verify import anatomy, binary, decompress, demangle, kernels
from apexlab.verify.child import children
from apexlab.verify.errors import UnreadableError
from apexlab.verify.fatbin import LZ4, ZSTD
from apexlab.verify.main import run
from apexlab.verify.report import schema
from apexlab.verify.static import verify_site

KERNELS = ("_Z6kernelPf", "_Z5otherIfEvT_", "plain_c")


@pytest.fixture
def sample(maker, folder):
    """An extension with machine code for two targets and PTX."""
    return maker.extension(
        folder, "amp_C", code=maker.fatbin("sm_80", "sm_90a", "compute_90", kernels=KERNELS),
        calls=("_ZN3c105ErrorERKNSt7__cxx1112basic_stringIcEE",),
        needs=(maker.named(folder / "lib", "libcudart.so.12", "cudaLaunchKernel"),))


def shown(capsys, *args):
    code = run(["inspect", *map(str, args)])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys, *args):
    code, out, err = shown(capsys, "--json", *args)
    found = json.loads(out)
    jsonschema.validate(found, schema("inspect-1"))
    return code, found, err


def packed_code(maker, folder, unpacked, packed, flag, size=None, name="amp_C", kind=2):
    """A binary whose one entry holds `packed` and says that it unpacks to `size` bytes."""
    entry = bytearray(maker.entry(kind, 90, packed, flags=flag))
    struct.pack_into("<I", entry, 16, len(packed))
    struct.pack_into("<Q", entry, 56, len(unpacked) if size is None else size)
    return maker.extension(folder, name, code=maker.container(bytes(entry)))


def lz4(data: bytes) -> bytes:
    """`data` as an LZ4 block of literals alone."""
    count = len(data)
    if count < 15:
        return bytes([count << 4]) + data
    rest, last = divmod(count - 15, 255)
    return b"\xf0" + b"\xff" * rest + bytes([last]) + data


# What is told.

def test_the_facts_are_told_in_json(sample, capsys):
    code, found, err = document(capsys, sample)
    (file,) = found["files"]
    assert (code, err, found["unreadable"]) == (0, "", [])
    assert file["targets"] == ["sm_80", "sm_90a"] and file["ptx"] == ["compute_90"]
    assert (file["torch"], file["cxx_abi"], file["cuda_major"]) == ("c++", "new", 12)
    assert "libcudart.so.12" in file["needed"]
    assert [(one["kind"], one["target"], one["compression"], one["entries"])
            for one in file["code"]] == [
        ("sass", "sm_80", "none", 1), ("sass", "sm_90a", "none", 1),
        ("ptx", "compute_90", "none", 1)]
    assert file["kernels"] is None


def test_kernels_come_mangled_and_readable_per_target(sample, capsys):
    _, found, _ = document(capsys, "--kernels", sample)
    listed = found["files"][0]["kernels"]
    assert [one["target"] for one in listed] == ["sm_80", "sm_90a"]
    for one in listed:
        assert {name["mangled"]: name["demangled"] for name in one["names"]} == {
            "_Z6kernelPf": "kernel(float*)", "_Z5otherIfEvT_": "void other<float>(float)",
            "plain_c": "plain_c"}
    _, out, _ = shown(capsys, "--kernels", sample)
    assert "sm_80 sm_90a: 3" in out and "kernel(float*)" in out and "_Z6" not in out


def test_a_library_without_gpu_code_says_none(maker, folder, capsys):
    path = maker.library(folder / "x.so", "int f;")
    _, found, _ = document(capsys, "--kernels", path)
    assert found["files"][0]["code"] == [] and found["files"][0]["kernels"] == []
    assert found["files"][0]["torch"] == "none"
    _, out, _ = shown(capsys, path)
    assert "none for CUDA" in out


@pytest.mark.parametrize(("calls", "link", "abi"), [
    (("_ZN2at3addERKNS_6TensorE",), "c++", "unknown"),
    (("_ZTIN3c105ErrorE",), "c++", "unknown"),
    (("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",), "c++", "old"),
    (("aoti_torch_new_tensor_handle", "torch_call_dispatcher"), "stable", "unknown"),
    (("aoti_torch_new_tensor_handle", "_ZN2at3addEv"), "c++", "unknown"),
    (("torchless", "_ZN4othe3addEv"), "none", "unknown"),
])
def test_the_tie_to_torch_is_its_cpp_interface_its_stable_one_or_none(
        maker, folder, calls, link, abi):
    found = anatomy.read(maker.extension(folder, "amp_C", calls=calls))
    assert (found.torch, found.cxx_abi) == (link, abi)


def test_symbol_versions_are_the_newest_that_are_asked_for(maker, folder):
    source = """extern int old(void), new(void), other(void);
                int f(void) { return old() + new() + other(); }"""
    (folder / "map").write_text("GLIBC_2.9 { global: old; };\nGLIBC_2.34 { global: new; };\n"
                                "OTHER_9.9 { global: other; };\n")
    needed = maker.library(
        folder / "libversions.so", "".join(f"int {name}(void) {{ return 1; }}\n"
                                           for name in ("old", "new", "other")),
        f"-Wl,--version-script={folder}/map")
    found = anatomy.read(maker.library(folder / "user.so", source, str(needed)))
    assert found.symbol_versions["GLIBC"] == "2.34"
    assert "OTHER" not in found.symbol_versions


def test_device_code_of_another_maker_is_named_and_not_called_nothing(maker, folder, capsys):
    section = '__asm__(".section .hip_fatbin,\\"a\\"\\n.quad 1\\n.previous\\n");'
    path = maker.library(folder / "x.so", section)
    _, found, _ = document(capsys, path)
    assert found["files"][0]["other_code"] == [".hip_fatbin"]
    assert ".hip_fatbin (not looked into)" in shown(capsys, path)[1]


def test_code_in_a_place_of_its_own_is_named_beside_the_fatbin(maker, folder, tmp_path):
    (tmp_path / "code").write_bytes(maker.fatbin("sm_90"))
    section = (f'__asm__(".section .cask_resource,\\"a\\"\\n.incbin \\"{tmp_path}/code\\"\\n'
               '.previous\\n");')
    both = maker.extension(folder, "a", code=maker.fatbin("sm_80"), more=section)
    assert (found := anatomy.read(both)).other_code == (".cask_resource",)
    assert found.targets == ("sm_80",)
    with pytest.raises(UnreadableError, match=r"unknown section '\.cask_resource' alone"):
        anatomy.read(maker.extension(folder, "b", more=section))


def test_kernels_of_ptx_count_where_there_is_no_machine_code(maker, folder):
    text = b"//\n.version 9.0\n.target sm_90\n.visible .entry _Z1av(\n)\n.visible .func _Z1bv(\n"
    alone = maker.container(maker.entry(1, 90, text))
    beside = maker.container(maker.entry(1, 90, text), maker.entry(2, 80, maker.cubin(["_Z1cv"])))
    assert kernels.names(maker.extension(folder, "a", code=alone)) == {"_Z1av"}
    assert binary.read_binary(maker.extension(folder, "a", code=alone)).kernels == 1
    assert kernels.names(maker.extension(folder, "b", code=beside)) == {"_Z1cv"}
    # Another container's machine code says nothing about this one's PTX.
    both = maker.extension(folder, "c", code=beside + alone)
    assert kernels.names(both) == {"_Z1av", "_Z1cv"}


# What cannot be read.

def test_the_others_are_shown_where_some_cannot_be_read(sample, tmp_path, capsys):
    broken, gone = tmp_path / "broken.so", tmp_path / "gone.so"
    broken.write_text("no ELF")
    code, found, err = document(capsys, gone, sample, broken, tmp_path, sample)
    assert code == 1 and [one["path"] for one in found["files"]] == [str(sample)] * 2
    assert [one["path"] for one in found["unreadable"]] == list(map(str, (gone, broken, tmp_path)))
    lines = err.splitlines()
    assert len(lines) == 3 and all(line.startswith("apexlab: ") for line in lines)
    assert "No such file" in lines[0] and "not an ELF file" in lines[1]
    code, out, err = shown(capsys, gone, sample)
    assert code == 1 and str(sample) in out and "gone.so" in err and "gone.so" not in out


def test_no_file_is_a_usage_error(capsys):
    code, _, err = shown(capsys)
    assert code == 2 and "FILE" in err


def test_names_in_the_file_cannot_paint_over_the_answer(maker, folder, capsys):
    path = maker.extension(folder, "x", code=maker.fatbin("sm_90", kernels=("_\x1b[2Jx",)))
    _, out, _ = shown(capsys, "--kernels", path)
    assert "\x1b" not in out and r"\x1b[2J" in out


@pytest.mark.parametrize(("flag", "packed", "size", "why"), [
    (LZ4, b"\x10", None, "literals do not fit"),
    (LZ4, b"\xf0" + b"\xff" * 40, None, "too early"),
    (LZ4, lz4(b"x" * 200), 100, "literals do not fit"),
    (LZ4, lz4(b"x" * 200), 300, "another length"),
    (LZ4, b"\x10x\x09\x00", None, "match does not fit"),
    (LZ4, lz4(b"x" * 200), 1 << 62, "bytes long"),
    (LZ4, lz4(b"x" * 200), 0, "bytes long"),
    (LZ4 | ZSTD, lz4(b"x" * 200), None, "unknown way"),
    (0, lz4(b"x" * 200), None, "unknown way"),
    (ZSTD, b"(\xb5/\xfd" + b"\xff" * 60, None, "damaged"),
])
def test_code_that_cannot_be_unpacked_leaves_the_kernels_open(
        maker, folder, capsys, monkeypatch, flag, packed, size, why):
    monkeypatch.setattr(decompress, "_library", lambda name: None if "lz4" in name else
                        ctypes.CDLL(name))
    path = packed_code(maker, folder, b"x" * 200, packed, flag, size)
    _, found, _ = document(capsys, "--kernels", path)
    (listed,) = found["files"][0]["kernels"]
    assert listed["names"] is None and why in listed["why"]
    assert found["files"][0]["targets"] == ["sm_90"]
    assert "at least 0: some of its code is" in shown(capsys, "--kernels", path)[1]
    assert binary.read_binary(path).kernels is None


def test_kernels_of_packed_code_are_told(maker, folder):
    code = maker.cubin(list(KERNELS))
    path = packed_code(maker, folder, code, lz4(code), LZ4)
    assert kernels.names(path) == frozenset(KERNELS)


def test_where_code_cannot_be_unpacked_the_names_of_the_host_code_stand_in(maker, folder):
    entry = maker.entry(2, 90, b"?" * 64, flags=ZSTD)
    path = maker.extension(folder, "amp_C", code=maker.container(entry),
                           more='const char *use_(void) { return "_Z6kernelPf"; }')
    assert "_Z6kernelPf" in kernels.names(path)


def test_names_are_those_of_all_targets(maker, folder):
    code = maker.container(maker.entry(2, 80, maker.cubin(["_Z1av"])),
                           maker.entry(2, 90, maker.cubin(["_Z1bv"])))
    assert kernels.names(maker.extension(folder, "amp_C", code=code)) == {"_Z1av", "_Z1bv"}


# Unpacking.

def test_zstd_without_any_decoder_is_cannot_be_told(maker, folder, monkeypatch):
    monkeypatch.setattr(decompress, "zstd_decoder", lambda: None)
    path = packed_code(maker, folder, b"x" * 200, b"(\xb5/\xfd" + b"\0" * 60, ZSTD)
    (found,) = anatomy.read(path, with_kernels=True).kernels
    assert "nothing that unpacks it" in found.why


def libzstd():
    try:
        return ctypes.CDLL("libzstd.so.1")
    except OSError:
        pytest.skip("this system has no libzstd.so.1 to compress with")


def zstd(data: bytes) -> bytes:
    library = libzstd()
    library.ZSTD_compress.restype = ctypes.c_size_t
    library.ZSTD_compressBound.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(
        library.ZSTD_compressBound(ctypes.c_size_t(len(data))))
    size = library.ZSTD_compress(out, ctypes.c_size_t(len(out)), data,
                                 ctypes.c_size_t(len(data)), 3)
    return out.raw[:size]


def decoders():
    found = [find() for find in
             (decompress._from_python, decompress._from_package, decompress._from_library)]
    return [one for one in found if one]


@settings(deadline=None, max_examples=200)
@given(st.binary(min_size=1, max_size=2000), st.integers(1, 50))
def test_every_zstd_decoder_gives_the_data_back_and_no_more_than_was_said(data, times):
    whole = data * times
    for decode in decoders():
        assert bytes(decode(zstd(whole), len(whole))) == whole
        if len(whole) > 1:
            try:
                assert len(decode(zstd(whole), len(whole) - 1)) <= len(whole)
            except Exception as error:
                assert not isinstance(error, MemoryError)


def test_a_frame_of_gigabytes_is_not_unpacked(maker, folder):
    bomb = zstd(bytes(64 << 20))
    assert len(bomb) < 10_000
    path = packed_code(maker, folder, b"", bomb, ZSTD, size=1000)
    (found,) = anatomy.read(path, with_kernels=True).kernels
    assert "damaged" in found.why


def compressed_lz4(data: bytes) -> bytes:
    """`data` as an LZ4 block with matches wherever the last bytes come again."""
    out, literals, at = bytearray(), bytearray(), 0
    while at < len(data):
        seen = data.rfind(data[at:at + 4], 0, at + 3) if at + 12 < len(data) else -1
        if seen < 0 or seen >= at or at - seen > 65535:
            literals.append(data[at])
            at += 1
            continue
        count = 4
        while at + count + 5 < len(data) and data[seen + count] == data[at + count]:
            count += 1
        out += sequence(literals, at - seen, count)
        literals.clear()
        at += count
    return bytes(out + sequence(literals))


def sequence(literals: bytes, offset: int = 0, count: int = 4) -> bytes:
    def more(value: int) -> bytes:
        return b"" if value < 15 else b"\xff" * ((value - 15) // 255) + bytes([(value - 15) % 255])

    token = min(len(literals), 15) << 4 | min(count - 4, 15)
    head = bytes([token]) + more(len(literals)) + bytes(literals)
    return head + struct.pack("<H", offset) + more(count - 4) if offset else head


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 60)), max_size=20))
def test_lz4_gives_the_data_back(parts):
    data = b"".join(part * times for part, times in parts)
    assert decompress.lz4_block(compressed_lz4(data), len(data)) == data


@settings(deadline=None, max_examples=500)
@given(st.binary(max_size=200), st.integers(0, 5000))
def test_lz4_of_anything_never_gives_more_than_was_said(data, size):
    with contextlib.suppress(decompress.CannotUnpack):
        assert len(decompress.lz4_block(data, size)) <= size


@settings(deadline=None, max_examples=300)
@given(st.binary(min_size=1, max_size=200), st.integers(1, 5000))
def test_the_systems_lz4_and_ours_take_the_same_blocks(data, size):
    library = decompress._library("liblz4.so.1")
    if library is None:
        pytest.skip("this system has no liblz4.so.1")

    def outcome(unpack):
        try:
            return bytes(unpack(data, size))
        except decompress.CannotUnpack:
            return None

    theirs = outcome(lambda *args: decompress._by_liblz4(library, *args))
    # Ours follows the format and not the rules for writers (the last bytes are literals).
    assert theirs in (None, outcome(decompress.lz4_block))


# Readable names.

def test_names_are_readable_as_cxxfilt_has_them():
    names = ["_Z6kernelPf", "_ZN2at6native12_GLOBAL__N_1L1fEv", "_Z", "f", "i", "plain", "_Zx", ""]
    readable = demangle.demangled(names)
    assert readable["_Z6kernelPf"] == "kernel(float*)"
    assert readable["_ZN2at6native12_GLOBAL__N_1L1fEv"] == "at::native::(anonymous namespace)::f()"
    assert all(readable[name] == name for name in ("_Z", "f", "i", "plain", "_Zx", ""))


def bomb(times: int = 60) -> str:
    """A name of some hundred bytes whose readable form has 2^times parts."""
    pieces = "1aI1b1cE"
    for number in range(times):
        last = back_reference(3 + 2 * number)
        pieces += f"1pI{last}{last}E"
    return "_Z1f" + pieces


def back_reference(number: int) -> str:
    """The Itanium ABI's short form of the component before, S_, S0_, ..., SZ_, S10_, ..."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    high, low = divmod(number - 1, 36)
    return "S" + (digits[high] if high > 0 else "") + digits[low] + "_"


def test_a_name_that_would_fill_the_memory_stays_as_it_is():
    names = ["_Z1av", bomb(), "_Z1bv", bomb(61), "_Z1cv"]
    readable = demangle.demangled(names)
    assert [readable[name] for name in names] == ["a()", names[1], "b()", names[3], "c()"]


def test_an_undefined_symbol_of_that_kind_is_named_as_it_is(maker, folder):
    maker.healthy(folder)
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), calls=(bomb(),))
    error, = verify_site(folder, require=("amp_C",)).errors
    assert error.code == "undefined-symbol" and bomb() in error.message


def test_demangling_leaves_no_child_behind():
    before = children()  # of other tests, what they started may still be there
    assert demangle.demangled(["_Z1av"]) == {"_Z1av": "a()"}
    assert children() <= before
