"""Names, versions and what may not travel in a record; wheels as folders."""

import zipfile
from pathlib import Path

import pytest

from apexlab.build import wheelfile
from apexlab.build.errors import CompileError
from apexlab.build.gate import refusal
from apexlab.build.make_record import extension_name, local_version, without_password
from apexlab.build.source import Source
from apexlab.verify.report import ERROR, INFO, Finding


def source(commit):
    return Source(Path("x"), "apex", commit, "d" * 64, False, "")


@pytest.mark.parametrize(
    ("commit", "torch", "local"),
    [
        ("5c8860f1dc79f9edc3c1ba4050fe841207834564", "2.6.0+cu124", "g5c8860f1.torch2.6.0.cu124"),
        (None, "2.11.0+cu130", "gdddddddd.torch2.11.0.cu130"),
        (None, "2.11.0", "gdddddddd.torch2.11.0"),
        (None, "2.9.0a0+git-12.NV", "gdddddddd.torch2.9.0a0.git.12.nv"),
    ],
)
def test_the_local_version_names_source_torch_and_cuda(commit, torch, local):
    from packaging.version import Version

    assert local_version(source(commit), torch) == local
    assert Version(f"0.1+{local}").local == local


def test_a_password_does_not_reach_the_record():
    assert without_password("https://me:token@example.org/a.git") == "https://example.org/a.git"
    assert without_password("https://example.org/a@b") == "https://example.org/a@b"
    assert without_password("git@example.org:a/b") == "git@example.org:a/b"


def test_both_layouts_name_the_extension():
    assert extension_name(Path("amp_C.cpython-311-x86_64-linux-gnu.so")) == "amp_C"
    assert extension_name(Path("apex/_amp_C.abi3.so")) == "amp_C"


def test_a_wheel_survives_unpacking_and_packing(tmp_path):
    root, info = tmp_path / "made", "apex-0.1+gx.dist-info"
    for name, text in {
        "apex/__init__.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: apex\nVersion: 0.1+gx\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    wheel = wheelfile.pack(root, tmp_path / "first")
    again = wheelfile.unpack(wheel, tmp_path / "folder")
    (wheelfile.dist_info(again) / wheelfile.RECORD_NAME).write_text("{}")
    packed = wheelfile.pack(again, tmp_path / "packed")
    assert packed.name == wheel.name
    with zipfile.ZipFile(packed) as file:
        assert file.read(f"{info}/apexlab-record.json") == b"{}"
        assert "apexlab-record.json,sha256=" in file.read(f"{info}/RECORD").decode()


def test_a_file_that_is_no_wheel_is_a_problem_of_the_build(tmp_path):
    (tmp_path / "a-1-py3-none-any.whl").write_text("no")
    with pytest.raises(CompileError, match="could not be unpacked"):
        wheelfile.unpack(tmp_path / "a-1-py3-none-any.whl", tmp_path / "folder")


def test_the_refusal_names_every_cause_once_and_no_remarks():
    text = refusal((Finding("no-device-code", ERROR, "amp_C holds none.", "Build again."),
                    Finding("not-requested", INFO, "x was not asked for.", "")), 13)
    assert "- no-device-code: amp_C holds none. Build again." in text
    assert "not asked for." not in text.partition("\n")[2]
