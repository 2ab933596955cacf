"""Which Apex is in an environment: made packages on the path of this process."""

import json
import subprocess
import sys

import pytest

from apexlab.bench.run import apex
from apexlab.verify import site
from apexlab.verify.errors import CannotError
from apexlab.verify.record import Built, Record

TAG = f".cpython-{sys.version_info[0]}{sys.version_info[1]}-x86_64-linux-gnu.so"
EXTENSIONS = ("amp_C", "fused_layer_norm_cuda")
BOTH = ("optimizer", "norm")


def record(source="apex", **what):
    built = tuple(Built(name, f"{name}{TAG}", 1, "") for name in EXTENSIONS)
    return Record(source, {"commit": "6424da3b" * 5, **what}, {"version": "2.11.0+cu130"}, {}, {},
                  ("9.0",), "core", EXTENSIONS, built)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The only folder that is looked into, with a torch of a name and nothing else."""
    place = tmp_path / "site-packages"
    (place / "torch" / "lib").mkdir(parents=True)
    (place / "torch" / "__init__.py").touch()
    (place / "torch" / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
    monkeypatch.setattr(sys, "path", [str(place)])
    return place


def package(place, made_record=None, version="0.1"):
    (place / "apex").mkdir()
    (place / "apex" / "__init__.py").touch()
    info = place / f"apex-{version}.dist-info"
    info.mkdir()
    if made_record:
        (info / site.RECORD_NAME).write_text(made_record.to_json())


def module(path, init):
    path.parent.mkdir(exist_ok=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, "-x", "c", "-"], check=True, text=True,
                   input=f"void *PyInit_{init}(void) {{ return 0; }}\n")


def modules(place):
    for name in EXTENSIONS:
        module(place / f"{name}{TAG}", name)


def libraries(place):
    """The other layout: libraries at the top, and shims that load them."""
    (place / "apex" / "_extensions").mkdir()
    for name in EXTENSIONS:
        module(place / f"_{name}.abi3.so", "nothing")
        (place / "apex" / "_extensions" / f"{name}.py").touch()


def test_without_apex_it_is_not_present(folder):
    module(folder / f"amp_C{TAG}", "amp_C")  # as an uninstall that went wrong leaves it
    subject = apex.find_subject()
    assert subject.document() == {
        "present": False, "label": None, "why": "Apex is not installed here.", "source": None,
        "commit": None, "version": None}
    assert subject.lacks(BOTH) == "Apex is not installed here."
    assert subject.lacks(()) == ""
    assert subject.record_document() is None


@pytest.mark.parametrize("layout", [modules, libraries])
def test_the_record_says_that_it_is_apex(folder, layout):
    package(folder, record())
    layout(folder)
    subject = apex.find_subject()
    assert subject.document() == {
        "present": True, "label": "Apex", "why": "", "source": "apex", "commit": "6424da3b" * 5,
        "version": "0.1"}
    assert set(subject.files) == set(EXTENSIONS)
    assert subject.lacks(BOTH) == ""
    assert subject.record_document()["archs"] == ("9.0",)
    json.dumps(subject.record_document())


def test_whatever_was_not_built_from_apex_stands_in_for_it(folder):
    package(folder, record("somebody's"))
    modules(folder)
    document = apex.find_subject().document()
    assert (document["label"], document["source"]) == ("stand-in", "somebody's")


def test_without_a_record_the_name_is_withheld(folder):
    package(folder)
    modules(folder)
    subject = apex.find_subject()
    assert subject.label is None
    assert "no build record" in subject.why
    assert subject.lacks(BOTH) == ""


def test_python_code_alone_has_no_parts_to_measure(folder):
    package(folder, record())
    subject = apex.find_subject()
    assert subject.present
    assert subject.why == "Apex is here as Python code alone, without its extensions."
    assert subject.lacks(("optimizer",)) == \
        "Apex is here without its extension amp_C, which FusedAdam needs."
    assert subject.lacks(("norm",)) == \
        "Apex is here without its extension fused_layer_norm_cuda, which its fused norms need."


def test_a_shim_without_its_library_is_no_extension(folder):
    package(folder, record())
    libraries(folder)
    (folder / "_amp_C.abi3.so").unlink()
    (folder / "apex" / "_extensions" / "apex_C.py").touch()  # Python code altogether, as it should
    subject = apex.find_subject()
    assert set(subject.files) == {"fused_layer_norm_cuda"}
    assert subject.broken == {}
    assert "without its extension amp_C" in subject.lacks(BOTH)


def test_an_extension_that_cannot_be_loaded_is_named_with_its_fault(folder):
    package(folder, record())
    modules(folder)
    (folder / f"amp_C{TAG}").write_bytes(b"no binary")
    subject = apex.find_subject()
    assert set(subject.files) == {"fused_layer_norm_cuda"}
    assert subject.lacks(BOTH).startswith("Apex's amp_C cannot be used: ")
    assert subject.lacks(("norm",)) == ""


def test_a_record_that_cannot_be_read_withholds_apex_and_says_why(folder):
    package(folder)
    modules(folder)
    (folder / "apex-0.1.dist-info" / site.RECORD_NAME).write_text("{}")
    subject = apex.find_subject()
    assert not subject.present
    assert "apexlab-record.json cannot be read" in subject.lacks(BOTH)


def test_without_torch_no_kernel_has_an_owner(folder):
    package(folder, record())
    modules(folder)
    (folder / "torch" / "version.py").unlink()
    registered = apex.find_subject().registered
    assert (registered.names, registered.torch) == ({}, frozenset())


def test_the_kernels_of_extensions_and_torch_are_read_once(folder, monkeypatch):
    package(folder, record())
    modules(folder)
    read, asked = apex.registered.read, []
    monkeypatch.setattr(apex.registered, "read", lambda *of: (asked.append(of), read(*of))[1])
    subject = apex.find_subject()
    assert subject.registered is subject.registered
    (files, library), = asked
    assert set(files) == set(EXTENSIONS)
    assert library == folder / "torch" / "lib"
    assert subject.registered.paths["amp_C"] == str((folder / f"amp_C{TAG}").resolve())


def test_a_folder_that_may_not_be_read_is_no_reason_to_stop(monkeypatch):
    def refuse():
        raise CannotError("/closed cannot be read.")

    monkeypatch.setattr(apex.site, "running_site", refuse)
    subject = apex.find_subject()
    assert (subject.present, subject.why) == (False, "/closed cannot be read.")
    assert subject.lacks(BOTH) == "/closed cannot be read."
