"""Wheels: what is taken out of them, and what is refused."""

import os
import stat
import sys
import time
import zipfile

import pytest

from apexlab.verify import check, wheel
from apexlab.verify.errors import CannotError, UnreadableError
from apexlab.verify.static import verify_wheel

NAME = "apex-0.1+g5c8860f1.torch2.6.0.cu124-cp311-cp311-linux_x86_64.whl"


def pack(path, members: dict):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def packed(tmp_path):
    return lambda members: pack(tmp_path / NAME, members)


def refused(path) -> str:
    with pytest.raises(UnreadableError) as caught, wheel.unpacked(path):
        pass
    return caught.value.reason


def test_libraries_are_taken_out_and_gone_afterwards(packed):
    path = packed({"amp_C.so": b"1", "apex/_extensions/_syncbn.abi3.so": b"2",
                   "apex/__init__.py": b"3", "apex-0.1.dist-info/METADATA": b""})
    with wheel.unpacked(path) as subject:
        found = {name: entry.path for name, entry in subject.files.items()}
        assert set(found) == {"amp_C", "syncbn"}
        assert found["amp_C"].read_bytes() == b"1"
        assert (subject.package / "__init__.py").read_bytes() == b"3"  # for the level load
        assert not list(found["amp_C"].parent.glob("*.dist-info"))
        assert subject.package and subject.versions == ("0.1",)
        assert (subject.python.version, subject.python.abi) == ("3.11", "311")
    assert not found["amp_C"].exists()


@pytest.mark.parametrize("name", ["../amp_C.so", "/amp_C.so", "apex/../../amp_C.so", "a\\amp_C.so"])
def test_a_member_that_points_outside_is_refused(packed, name):
    assert "points out of the archive" in refused(packed({name: b"x"}))


def test_a_link_is_refused(tmp_path):
    info = zipfile.ZipInfo("amp_C.so")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert "is a link" in refused(pack(tmp_path / NAME, {info: b"/etc/passwd"}))


def test_a_name_that_comes_twice_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive, pytest.warns(UserWarning):
        archive.writestr("amp_C.so", b"1")
        archive.writestr("amp_C.so", b"2")
    assert "twice" in refused(tmp_path / NAME)


def test_a_bomb_stops_at_the_limit(packed, monkeypatch):
    monkeypatch.setattr(wheel, "MAX_BYTES", 1 << 20)
    assert "unpacks to more than" in refused(packed({"amp_C.so": bytes(3 << 20)}))


def test_what_is_no_wheel_says_so(tmp_path):
    (tmp_path / NAME).write_bytes(b"hello")
    assert "not a sound wheel" in refused(tmp_path / NAME)


def test_changed_bytes_are_noticed(packed):
    path = packed({"amp_C.so": bytes(range(256)) * 10})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    assert "not a sound wheel" in refused(path)


def test_a_truncated_wheel_is_noticed(packed):
    path = packed({"amp_C.so": bytes(range(256)) * 10})
    path.write_bytes(path.read_bytes()[:-30])
    assert "not a sound wheel" in refused(path)


def test_a_record_inside_is_read_and_a_broken_one_is_an_error(packed, maker, folder, record_of):
    maker.healthy(folder, "amp_C")
    record = record_of(folder, "amp_C")
    inside = "apex-0.1.dist-info/apexlab-record.json"
    with wheel.unpacked(packed({inside: record.to_json()})) as subject:
        assert subject.record == record
        assert subject.record_path.endswith(inside)
    with pytest.raises(CannotError, match="cannot be read"), wheel.unpacked(packed({inside: "{}"})):
        pass


# The gate of a build: its record was written from this very wheel.

@pytest.fixture
def gate(maker, folder, record_of, tmp_path):
    def judge(*names, requested=None, archs=("9.0",), targets=("sm_90",), own=None, **changes):
        maker.healthy(folder, *names, targets=targets)
        record = record_of(folder, *names, requested=requested or names, archs=archs)
        members = {path.name: path.read_bytes() for path in folder.glob("*.so")}
        members |= {"apex/__init__.py": b"", **changes}
        return verify_wheel(pack(tmp_path / "apex-0.1.whl", members), record,
                            own_targets=own or {})

    return judge


def codes(report):
    return [found.code for found in report.errors]


def test_the_gate_lets_a_complete_wheel_through(gate):
    report = gate("amp_C", "apex_C", archs=("8.0", "9.0+PTX"),
                  targets=("sm_80", "sm_90", "compute_90"))
    assert codes(report) == []


def test_the_gate_stops_a_wheel_that_lacks_one_extension(gate):
    report = gate("amp_C", requested=("amp_C", "syncbn"))
    assert codes(report) == ["not-installed"]
    assert report.exit_code == 1 and report.errors[0].extensions == ("syncbn",)


def test_the_gate_stops_fewer_architectures_than_asked_for(gate):
    report = gate("amp_C", archs=("8.0", "9.0+PTX"), targets=("sm_90",))
    assert codes(report) == ["fewer-architectures"]
    assert "sm_80 and compute_90" in report.errors[0].message


def test_the_gate_knows_extensions_with_targets_of_their_own(gate):
    report = gate("amp_C", "syncbn", archs=("9.0",), targets=("sm_70",),
                  own={"syncbn": ("sm_70",)})
    assert codes(report) == ["fewer-architectures"]
    assert report.errors[0].extensions == ("amp_C",)


def test_the_gate_says_python_only_once(gate):
    report = gate("amp_C", requested=("amp_C", "syncbn"))
    assert len(codes(report)) == 1
    empty = verify_wheel_of_nothing(report.record)
    assert codes(empty) == ["python-only"]


def test_a_wheel_for_another_torch_is_told_from_one_that_was_replaced(
        maker, folder, tmp_path, record_of, monkeypatch):
    maker.healthy(folder, "amp_C")
    record = record_of(folder, "amp_C", torch="2.4.1+cu124")
    monkeypatch.syspath_prepend(folder)
    path = pack(tmp_path / "apex-0.1.whl", {
        "apex/__init__.py": b"", **{file.name: file.read_bytes() for file in folder.glob("*.so")}})
    report = verify_wheel(path, record)
    assert codes(report) == ["torch-differs"]
    assert "built for torch 2.4.1+cu124, and torch 2.6.0+cu124 is" in report.errors[0].message


@pytest.mark.parametrize(("tag", "code"), [
    ("cp39-cp39-linux_x86_64", "other-python"),
    ("cp{here}-cp{here}-linux_s390x", "other-platform")])
def test_a_wheel_that_nothing_here_can_import_is_left_incomplete(
        maker, folder, tmp_path, monkeypatch, tag, code):
    here = f"{sys.version_info[0]}{sys.version_info[1]}"
    maker.healthy(folder)
    monkeypatch.syspath_prepend(folder)
    path = pack(tmp_path / f"apex-0.1-{tag.format(here=here)}.whl", {"apex/__init__.py": b""})
    with wheel.unpacked(path) as subject:
        report = check.check(subject, check.Options(level="load", require=("amp_C",)))
    assert code in {one.code for one in report.findings if one.severity == "incomplete"}


def test_the_python_code_of_a_wheel_is_imported_with_its_extensions(
        maker, folder, tmp_path, monkeypatch):
    maker.healthy(folder, "amp_C")
    monkeypatch.syspath_prepend(folder)
    members = {file.name: file.read_bytes() for file in folder.glob("*.so")}
    members |= {"apex/__init__.py": b"", "apex/mlp/__init__.py": b"import torch; torch.library"}
    here = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    path = pack(tmp_path / f"apex-0.1-{here}-{here}-linux_x86_64.whl", members)
    with wheel.unpacked(path) as subject:
        report = check.check(subject, check.Options(level="load", require=("amp_C",)))
    assert codes(report) == ["torch-lacks"]


def verify_wheel_of_nothing(record):
    import tempfile
    from pathlib import Path
    with tempfile.TemporaryDirectory() as folder:
        return verify_wheel(pack(Path(folder, "apex-0.1.whl"), {"apex/__init__.py": b""}), record,
                            own_targets={})




def test_a_name_that_comes_twice_among_many_is_found_at_once(tmp_path):
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive, pytest.warns(UserWarning):
        for name in (*map(str, range(wheel.MAX_MEMBERS - 2)), "z", "z"):
            archive.writestr(name, b"")
    started = time.monotonic()
    assert "'z' twice" in refused(tmp_path / NAME)
    assert time.monotonic() - started < 20  # comparing each with each took two minutes


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_may_unpack_to_a_gigabyte_in_one_go_is_refused(tmp_path, method):
    with zipfile.ZipFile(tmp_path / NAME, "w", method) as archive:
        archive.writestr("apex/x.py", b"x" * 1000)
    assert "compressed as no wheel is" in refused(tmp_path / NAME)


def test_a_list_of_members_without_end_is_not_read_in(tmp_path, packed, monkeypatch):
    path = packed({f"{index:>0100}": b"" for index in range(200)})
    monkeypatch.setattr(wheel, "MAX_DIRECTORY", 20_000)
    assert "its list of members has" in refused(path)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"),
                                  lambda path: path.mkdir()])
def test_what_is_no_file_is_no_wheel_and_not_waited_for(tmp_path, make):
    make(tmp_path / NAME)
    assert refused(tmp_path / NAME) == "it is not a regular file"
