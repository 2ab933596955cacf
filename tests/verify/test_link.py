"""The link check, against small libraries that are named as torch's are."""

import contextlib
import struct

import pytest

from apexlab.verify import versions
from apexlab.verify.binary import read_binary
from apexlab.verify.errors import UnreadableError
from apexlab.verify.library import Library, gnu_hash
from apexlab.verify.link import Linked, Scope
from apexlab.verify.loader import Search, parse_cache


@pytest.fixture
def site(maker, folder):
    maker.torch(folder)
    return folder


def check(site, path) -> Linked:
    return Scope(site / "torch/lib").check(read_binary(path))


def test_what_torch_defines_is_found(maker, site):
    path = maker.extension(site, "amp_C", calls=("_ZN3c105ErrorEv", "_ZN3c104cuda9SetDeviceEav"))
    assert check(site, path) == Linked()


def test_what_nothing_defines_is_named(maker, site):
    path = maker.extension(site, "amp_C", calls=("_ZN3c105ErrorEv", "_ZN3c104cuda9SetDeviceEv"))
    assert check(site, path).unresolved == ("_ZN3c104cuda9SetDeviceEv",)


def test_cublas_counts_as_loaded_although_nothing_names_it(maker, site):
    assert check(site, maker.extension(site, "mlp_cuda", calls=("cublasGemmEx",))) == Linked()


def test_a_needed_library_of_its_own_may_define_the_rest(maker, site):
    own = maker.named(site / "torch/lib", "libown.so", "own_function")
    path = maker.extension(site, "amp_C", calls=("own_function",), needs=(own,))
    assert check(site, path) == Linked()


def test_a_missing_library_hides_its_symbols(maker, site, tmp_path):
    gone = maker.named(tmp_path, "libcudart.so.77", "cudaFunction")
    path = maker.extension(site, "amp_C", calls=("cudaFunction",), needs=(gone,))
    assert check(site, path) == Linked(missing=("libcudart.so.77",))


def test_a_damaged_library_is_not_held_against_the_extension(maker, site):
    (site / "torch/lib/libc10.so").write_bytes(b"\x7fELF\x02\x01" + b"\xff" * 200)
    linked = check(site, maker.extension(site, "amp_C", calls=("_ZN3c105ErrorEv",)))
    assert linked.unreadable == (str(site / "torch/lib/libc10.so"),)


# Symbol versions: the extension was linked beside newer system libraries than those that are here.

@pytest.fixture
def asks(maker, site, tmp_path):
    """An extension that asks `library` for a version that no real one has."""
    def make(library: str, version: str):
        new = maker.versioned(tmp_path / "new", library, from_the_future=version)
        return maker.extension(site, "amp_C", calls=("from_the_future",), needs=(new,))
    return make


@pytest.mark.parametrize(("library", "version", "kind"), [
    ("libc.so.6", "GLIBC_2.99", "GLIBC"), ("libstdc++.so.6", "GLIBCXX_3.4.99", "GLIBCXX"),
    ("libstdc++.so.6", "CXXABI_1.3.99", "CXXABI")])
def test_a_version_that_the_system_lacks_is_named_with_its_library(
        site, asks, library, version, kind):
    old, = check(site, asks(library, version)).old
    assert (old.version, old.library) == (version, Search([]).find(library))
    assert versions.kind(old.newest) == kind
    assert versions.order(old.newest) < versions.order(version)
    assert old.newest in versions.defined(old.library)


def test_of_several_versions_the_highest_is_named(maker, site, asks, tmp_path):
    lower = maker.versioned(tmp_path / "lower", "libstdc++.so.6", f="GLIBCXX_3.4.98", g="GLIBCXX_9")
    path = maker.extension(site, "amp_C", calls=("f", "g"), needs=(lower,))
    assert [one.version for one in check(site, path).old] == ["GLIBCXX_9"]


def test_the_library_that_the_loader_would_find_decides(maker, site, asks, monkeypatch, tmp_path):
    path = asks("libstdc++.so.6", "GLIBCXX_3.4.99")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "new"))
    assert check(site, path) == Linked()
    # conda's interpreter names the folder of its environment's libraries.
    monkeypatch.delenv("LD_LIBRARY_PATH")
    python = maker.library(tmp_path / "env/bin/python", "int f(void) { return 1; }",
                           "-Wl,-rpath,$ORIGIN/../lib")
    maker.versioned(tmp_path / "env/lib", "libstdc++.so.6", f="GLIBCXX_3.4")
    old, = Scope(site / "torch/lib", python).check(read_binary(path)).old
    assert old.newest == "GLIBCXX_3.4" and old.library.samefile(tmp_path / "env/lib/libstdc++.so.6")


def test_a_system_library_that_cannot_be_read_decides_nothing(site, asks, monkeypatch, tmp_path):
    path = asks("libstdc++.so.6", "GLIBCXX_3.4.99")
    (tmp_path / "new/libstdc++.so.6").write_bytes(b"no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "new"))
    linked = check(site, path)
    assert linked.unreadable == (str(tmp_path / "new/libstdc++.so.6"),) and not linked.old


def test_versions_that_lie_are_unreadable_or_harmless(maker, site, asks, tmp_path):
    good = asks("libstdc++.so.6", "GLIBCXX_3.4.99").read_bytes()
    system = maker.versioned(tmp_path / "x", "libz.so", a="A_1", b="GLIBC_2").read_bytes()
    for data, read in ((good, read_binary), (system, versions.defined.__wrapped__)):
        for at in range(0, len(data) - 4, 4):
            if data[at:at + 4] != b"\0\0\0\0":
                path = tmp_path / "lies.so"
                path.write_bytes(data[:at] + b"\xff\xff\xff\x7f" + data[at + 4:])
                with contextlib.suppress(UnreadableError):
                    read(path)


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_both_kinds_of_hash_tables_answer(maker, tmp_path, style):
    names = [f"function_{index}" for index in range(300)]
    source = "".join(f"int {name}(void) {{ return 0; }}" for name in names)
    source += "extern int absent(void); int call(void) { return absent(); }"
    library = Library(maker.library(tmp_path / "x.so", source, f"-Wl,--hash-style={style}"))
    assert all(library.defines(name.encode()) for name in names)
    assert not library.defines(b"absent")  # asked for there, and not defined
    assert not any(library.defines(f"other_{index}".encode()) for index in range(300))


def test_the_hash_is_the_loaders():
    assert gnu_hash(b"printf") == 0x156B2BB8


def test_a_hash_table_of_lies_is_an_unreadable_library(maker, tmp_path):
    path = maker.library(tmp_path / "x.so", "int f(void) { return 0; }", "-Wl,--hash-style=gnu")
    good = path.read_bytes()
    for at in range(0, 4096, 4):
        data = bytearray(good)
        struct.pack_into("<I", data, at, 0xFFFFFFFF)
        path.write_bytes(data)
        try:
            Library(path).defines(b"f")
        except UnreadableError as error:
            assert str(path) in str(error)


def test_the_search_follows_the_loaders_order(tmp_path, monkeypatch):
    for name in ("asked", "torch", "own"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libx.so").write_bytes(b"")
    search = Search([tmp_path / "torch"], tmp_path / "no-cache")
    assert search.find("libx.so") == tmp_path / "torch/libx.so"
    assert search.find("libx.so", ["$ORIGIN/own"], tmp_path) == tmp_path / "own/libx.so"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "asked"))
    again = Search([tmp_path / "torch"], tmp_path / "no-cache")
    assert again.find("libx.so") == tmp_path / "asked/libx.so"
    assert again.find("libabsent-anywhere.so") is None


def test_the_c_library_is_found_with_and_without_the_loaders_cache(tmp_path):
    assert Search([]).find("libc.so.6")
    assert Search([], tmp_path / "no-cache").find("libc.so.6")


@pytest.mark.parametrize("data", [b"", b"nonsense", b"glibc-ld.so.cache1.1" + b"\xff" * 60])
def test_an_unknown_cache_is_no_cache(tmp_path, data):
    with pytest.raises((ValueError, struct.error)):
        parse_cache(data)
    (tmp_path / "cache").write_bytes(data)
    assert Search([], tmp_path / "cache").find("libc.so.6")
