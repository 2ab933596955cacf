"""The level load: every way in which an import can end is told apart, and none ends verify."""

import sys
import time

import pytest

from apexlab.verify import check, device, load, site
from apexlab.verify.errors import CannotError
from apexlab.verify.found import MODULE, Found


def judged(folder, *require, seconds=20.0, torch_seconds=20.0):
    options = check.Options(level="load", require=require, seconds=seconds,
                            torch_seconds=torch_seconds)
    return check.check(site.folder_site(folder), options)


def codes(report):
    return {found.code for found in report.errors}


@pytest.fixture
def broken(maker, folder):
    """Makes amp_C break in the way that `more` says, beside a sound apex_C; judges both."""

    def judge(seconds=20.0, **more):
        maker.healthy(folder, "apex_C")
        maker.extension(folder, "amp_C", **{"code": maker.fatbin("sm_90"), **more})
        report = judged(folder, "apex_C", "amp_C", seconds=seconds)
        sound = next(one for one in report.extensions if one.name == "apex_C")
        assert sound.status == "loaded"
        return report

    return judge


def test_sound_extensions_load(maker, folder):
    maker.healthy(folder, "apex_C", "amp_C")
    report = judged(folder, "apex_C", "amp_C")
    assert (report.verdict, report.exit_code, report.level_reached) == ("ok", 0, "load")
    assert {one.status for one in report.extensions if one.expected} == {"loaded"}


@pytest.mark.parametrize(("body", "signal"), [
    ("*(volatile int *)0 = 1;", "SIGSEGV"), ("__builtin_trap();", "SIGILL"),
    ("extern void abort(void); abort();", "SIGABRT"),
    ("extern int raise(int); raise(7);", "SIGBUS"),
])
def test_a_crash_names_its_signal(broken, body, signal):
    report = broken(body=body)
    assert codes(report) == {"crash"} and signal in report.errors[0].message


def test_a_crash_shows_what_the_extension_said(broken):
    body = ('extern int dprintf(int, const char *, ...); extern void abort(void); '
            'dprintf(2, "it is all over\\n"); abort();')
    assert "it is all over" in broken(body=body).errors[0].message


def test_an_exit_is_no_success(broken):
    report = broken(body="extern void exit(int); exit(0);")
    assert codes(report) == {"exit"} and "exit status 0" in report.errors[0].message


def test_a_hang_is_stopped(broken):
    started = time.monotonic()
    report = broken(body="extern int pause(void); for (;;) pause();", seconds=1.0)
    assert codes(report) == {"hang"}
    assert time.monotonic() - started < 20


def test_a_python_exception_is_quoted(broken):
    body = ('extern void *PyExc_ValueError; extern void PyErr_SetString(void *, const char *);'
            'PyErr_SetString(PyExc_ValueError, "no such luck"); return 0;')
    report = broken(body=body)
    assert codes(report) == {"import-error"}
    assert "ValueError: no such luck" in report.errors[0].message


def test_an_undefined_symbol_is_one_finding(broken):
    report = broken(calls=("_ZN3c104cuda9SetDeviceEa",))
    assert codes(report) == {"torch-abi-mismatch"}
    assert len(next(one for one in report.extensions if one.name == "amp_C").findings) == 1


def test_what_loads_was_not_unresolved(broken):
    # Resolved by a library that the reading knows nothing of: loaded beforehand by torch.
    report = broken(calls=("getpid",), more="")
    assert codes(report) == set()


def test_files_that_cannot_work_are_not_imported(maker, folder, tmp_path):
    maker.healthy(folder, "apex_C", "amp_C")
    mark = tmp_path / "imported"
    body = f'extern int creat(const char *, int); creat("{mark}", 0600);'
    maker.extension(folder, "amp_C", body=body, code=maker.fatbin("sm_90"),
                    file="amp_C.cpython-39-x86_64-linux-gnu.so")
    next(folder.glob("amp_C.cpython-3[!9]*")).unlink()
    assert codes(judged(folder, "amp_C", "apex_C")) == {"wrong-python-abi"}
    assert not mark.exists()


@pytest.mark.parametrize(("text", "said"), [
    ("raise ImportError('libtorch_cuda.so: no luck')", "no luck"),
    ("import os; os.abort()", "SIGABRT"),
    ("import os; os._exit(3)", "exit status 3"),
])
def test_a_torch_that_cannot_be_imported(maker, folder, text, said):
    maker.healthy(folder, "amp_C")
    (folder / "torch/__init__.py").write_text(text)
    report = judged(folder, "amp_C")
    assert codes(report) == {"torch-broken"} and said in report.errors[0].message
    assert (report.exit_code, report.level_reached) == (1, "static")


def test_a_torch_that_hangs(maker, folder):
    maker.healthy(folder, "amp_C")
    (folder / "torch/__init__.py").write_text("import time; time.sleep(600)")
    report = judged(folder, "amp_C", torch_seconds=1.0)
    assert codes(report) == {"torch-broken"} and "did not come back" in report.errors[0].message


def test_the_current_folder_cannot_shadow(maker, folder, tmp_path, monkeypatch):
    maker.healthy(folder, "amp_C")
    (tmp_path / "amp_C.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    assert codes(judged(folder, "amp_C")) == set()


def test_what_extensions_print_stays_away_from_the_report(maker, folder, capfd):
    maker.healthy(folder)
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"),
                    body='extern int puts(const char *); puts("{}");')
    assert codes(judged(folder, "amp_C")) == set()
    assert capfd.readouterr().out == ""


# The other layout: libraries that torch loads, and that register their operations with it.

@pytest.fixture
def library(maker, folder):
    """Makes amp_C a library with a shim, and judges it."""
    def judge(**more):
        maker.torch(folder)
        maker.library_of(folder, "amp_C", **more)
        return judged(folder, "amp_C")
    return judge


def test_a_library_that_registers_its_operations_is_loaded(library):
    report = library()
    assert codes(report) == set()
    assert next(one for one in report.extensions if one.name == "amp_C").status == "loaded"


def test_a_library_that_crashes(library):
    crash = "__attribute__((constructor)) void f(void) { extern void abort(void); abort(); }"
    assert codes(library(more=crash)) == {"crash"}


def test_what_torch_hides_in_the_cause_of_its_error_is_understood(library):
    assert codes(library(calls=("forgotten",))) == {"undefined-symbol"}


@pytest.mark.parametrize("registers", [None, "aten::of_another"])
def test_a_library_that_registers_nothing_of_apex_is_not_loaded(library, registers):
    report = library(registers=registers)
    assert codes(report) == {"no-operations"}
    assert next(one for one in report.extensions if one.name == "amp_C").status == "broken"


def test_a_torch_that_does_not_tell_its_operations_leaves_it_open(library, folder):
    library()
    text = (folder / "torch/__init__.py").read_text()
    (folder / "torch/__init__.py").write_text(text.replace("_dispatch_get_all_op_names", "other"))
    report = judged(folder, "amp_C")
    assert (report.verdict, report.exit_code) == ("incomplete", 4)
    assert "not-loaded" in {one.code for one in report.findings}


def test_a_shim_that_takes_another_library_than_the_judged_one(library, folder):
    library()
    shim = folder / "apex/_extensions/amp_C.py"
    (folder / "apex/_amp_C_old.so").write_bytes((folder / "_amp_C.abi3.so").read_bytes())
    shim.write_text("import torch, pathlib\ntorch.ops.load_library("
                    "str(pathlib.Path(__file__).parents[1] / '_amp_C_old.so'))\n")
    report = judged(folder, "amp_C")
    assert codes(report) == {"shadowed"} and "_amp_C_old.so" in report.errors[0].message


def test_a_shim_that_finds_no_library_is_broken(library, folder):
    library()
    (folder / "apex/_extensions/amp_C.py").write_text("raise ImportError('nothing found')")
    report = judged(folder, "amp_C")
    assert codes(report) == {"wrapper-broken"}
    assert "apex._extensions.amp_C" in report.errors[0].message


# Apex's own Python code, which catches import errors and goes on without the extension.

SWALLOWS = """
class MultiTensorApply:
    available, import_err = False, None
    def __init__(self):
        try:
            {attempt}
            MultiTensorApply.available = True
        except ImportError as error:
            MultiTensorApply.import_err = error
MultiTensorApply()
"""


@pytest.fixture
def python_side(maker, folder):
    """Writes modules of the package apex, by name, and judges apex_C and amp_C."""
    maker.healthy(folder, "apex_C", "amp_C")

    def judge(seconds=20.0, **modules):
        for name, text in modules.items():
            place = folder.joinpath("apex", *name.split("__"))
            place.mkdir(parents=True, exist_ok=True)
            (place / "__init__.py").write_text(text)
        return judged(folder, "apex_C", "amp_C", seconds=seconds)
    return judge


def test_a_python_side_that_finds_its_extensions_is_sound(python_side):
    report = python_side(multi_tensor_apply=SWALLOWS.format(attempt="import amp_C"),
                         optimizers="import amp_C")
    assert (codes(report), report.verdict) == (set(), "ok")


def test_an_error_that_apex_swallows_is_brought_to_light(python_side):
    attempt = "from amp_C import multi_tensor_of_a_later_ref"
    report = python_side(multi_tensor_apply=SWALLOWS.format(attempt=attempt))
    assert codes(report) == {"error-swallowed"}
    message = report.errors[0].message
    assert message.startswith("amp_C loads, and yet apex.multi_tensor_apply could not import it")
    assert "cannot import name 'multi_tensor_of_a_later_ref'" in message
    assert report.exit_code == 1 and report.errors[0].extensions == ("amp_C",)


def test_a_broken_extension_is_not_said_again_by_its_wrappers(python_side, maker, folder):
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), calls=("_ZN2at4goneEv",))
    report = python_side(multi_tensor_apply=SWALLOWS.format(attempt="import amp_C"),
                         optimizers="import amp_C", normalization="from .. import optimizers")
    assert [one.code for one in report.errors] == ["torch-abi-mismatch"]


@pytest.mark.parametrize(("more", "code"), [
    ({"body": "extern void abort(void); abort();"}, "crash"),
    ({"body": "extern void _exit(int); _exit(5);"}, "exit"),
    ({"body": "extern int pause(void); for (;;) pause();"}, "hang"),
])
def test_what_ends_an_import_of_the_extension_ends_one_of_apex_and_is_said_once(
        python_side, maker, folder, more, code):
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), **more)
    (folder / "apex/__init__.py").write_text("from . import multi_tensor_apply")
    report = python_side(1.0, multi_tensor_apply=SWALLOWS.format(attempt="import amp_C"))
    assert [one.code for one in report.errors] == [code]


def test_what_a_wrapper_makes_of_a_broken_extension_is_not_said_again(python_side, maker, folder):
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), calls=("_ZN2at4goneEv",))
    report = python_side(optimizers="try: import amp_C\n"
                                    "except ImportError: raise RuntimeError('built without CUDA')")
    assert [one.code for one in report.errors] == ["torch-abi-mismatch"]


def test_an_extension_that_nobody_asked_for_may_be_absent_from_its_wrapper(python_side):
    assert codes(python_side(mlp="import mlp_cuda", contrib="",
                             contrib__optimizers="import fused_adam_cuda")) == set()


@pytest.mark.parametrize(("text", "lacks"), [
    ("import torch\ntorch.library.custom_op", "torch.library"),
    ("import torch\ntorch.ops.newer_thing", None),
    ("from torch import compiler", "torch.compiler"),
    ("import torch._six", "torch._six"),
])
def test_a_ref_that_does_not_fit_this_torch_is_told_apart(python_side, text, lacks):
    report = python_side(normalization=text)
    assert codes(report) == {"torch-lacks" if lacks else "wrapper-broken"}
    message = report.errors[0].message
    assert message.startswith("apex.normalization") and (lacks or "newer_thing") in message


def test_a_package_that_fails_as_a_whole_is_one_failure(python_side, folder):
    # A second attempt fails otherwise: the first one has registered something already.
    (folder / "apex/__init__.py").write_text(
        "import torch\nif hasattr(torch, 'done'): raise ValueError('done already')\n"
        "torch.done = True\ntorch.library.custom_op")
    report = python_side(optimizers="", normalization="", mlp="")
    assert [one.code for one in report.errors] == ["torch-lacks"]
    assert report.errors[0].message.startswith("apex cannot be imported")


def test_one_cause_in_several_wrappers_is_said_once(python_side):
    text = "import torch; torch.library"
    report = python_side(optimizers=text, mlp=text)
    assert [one.code for one in report.errors] == ["torch-lacks"]
    assert "The same holds for apex.mlp" in report.errors[0].message


@pytest.mark.parametrize(("text", "said"), [
    ("import os; os.abort()", "SIGABRT"), ("import os; os._exit(3)", "exit status 3"),
    ("import time; time.sleep(600)", "stopped after 1 seconds"),
    ("raise ValueError('no such luck')", "ValueError: no such luck"),
])
def test_a_wrapper_that_ends_the_process_does_not_hide_the_others(
        python_side, text, said):
    report = python_side(1.0, normalization=text, optimizers="", mlp="import torch; torch.library")
    assert codes(report) == {"wrapper-broken", "torch-lacks"}
    assert next(said in one.message for one in report.errors if one.code == "wrapper-broken")


def test_another_package_than_the_judged_one_is_noticed(maker, folder, tmp_path):
    from dataclasses import replace
    maker.healthy(folder, "amp_C")
    other = tmp_path / "other/apex"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    subject = replace(site.folder_site(folder), prepend=(str(other.parent), str(folder)))
    report = check.check(subject, check.Options(level="load", require=("amp_C",)))
    assert codes(report) == {"shadowed"} and str(other) in report.errors[0].message


def test_the_web_package_is_never_imported_by_its_wrapper_names(maker, folder, tmp_path):
    maker.torch(folder)
    mark = tmp_path / "imported"
    (folder / "apex").mkdir()
    (folder / "apex/__init__.py").write_text(f"open({str(mark)!r}, 'w')")
    (folder / "apex-0.9.10.dev0.dist-info").mkdir()
    assert codes(judged(folder, "amp_C")) == {"wrong-package"} and not mark.exists()


def test_apex_amp_is_never_imported(python_side, folder):
    assert codes(python_side(amp="raise SystemExit('apex.amp was imported')")) == set()


@pytest.mark.parametrize(("library", "version", "code"), [
    ("libstdc++.so.6", "GLIBCXX_3.4.99", "libstdcxx-too-old"),
    ("libc.so.6", "GLIBC_2.99", "glibc-too-old")])
def test_reading_and_loading_agree_about_symbol_versions(
        maker, folder, tmp_path, library, version, code):
    maker.healthy(folder, "apex_C")
    new = maker.versioned(tmp_path / "new", library, from_the_future=version)
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), needs=(new,),
                    calls=("from_the_future",))
    subject = site.folder_site(folder)
    answer = load.load(subject, subject.files.values()).answers["amp_C"]
    fill = {"torch": "2.6.0", "rebuild": "make image"}
    said = load.understood("amp_C", answer, subject.files["amp_C"], fill)
    read, = check.check(subject, check.Options(require=("apex_C", "amp_C"))).errors
    assert said.code == read.code == code
    assert f"needs {version}, and " in said.message and "stops at" in said.message
    assert said.message.split(" stops at ")[1] == read.message.split(" stops at ")[1]
    assert codes(judged(folder, "apex_C", "amp_C")) == {code}


@pytest.mark.parametrize(("tag", "here"), [
    ("cp39-cp39", False), ("cp39-abi3", True), ("cp399-abi3", False),
])
def test_a_wheel_for_another_python_is_left_incomplete(tmp_path, tag, here):
    import zipfile

    from apexlab.verify import wheel
    path = tmp_path / f"apex-0.1-{tag}-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("apex/__init__.py", "")
    with wheel.unpacked(path) as subject:
        assert (subject.python.executable is not None) == here


def test_a_python_that_cannot_be_started_is_said(maker, folder, tmp_path):
    from dataclasses import replace
    maker.healthy(folder, "amp_C")
    subject = site.folder_site(folder)
    (tmp_path / "python").write_text("")
    gone = replace(subject, python=replace(subject.python, executable=tmp_path / "python"))
    with pytest.raises(CannotError, match="cannot be started"):
        load.load(gone, subject.files.values())


# What the loader says, for faults that cannot be made here.

@pytest.mark.parametrize(("kind", "text", "code"), [
    ("ImportError", "libcudart.so.12: cannot open shared object file: No such file or directory",
     "cudart-missing"),
    ("ImportError", "libc10_cuda.so: cannot open shared object file: No such", "torch-cpu-only"),
    ("ImportError", "libc10.so: cannot open shared object file: No such", "torch-not-imported"),
    ("ImportError", "libcuda.so.1: cannot open shared object file: No such file",
     "driver-lib-missing"),
    ("ImportError", "libnccl.so.2: cannot open shared object file: No such", "library-missing"),
    ("ImportError", "{path}: cannot open shared object file: No such file", "wrong-machine"),
    ("ImportError", "{path}: undefined symbol: _ZN3c104cuda9SetDeviceEa", "torch-abi-mismatch"),
    ("ImportError", "{path}: undefined symbol: forgotten", "undefined-symbol"),
    ("ImportError", "/lib/libstdc++.so.6: version `GLIBCXX_3.4.99' not found (required by x)",
     "libstdcxx-too-old"),
    ("ImportError", "/lib/libc.so.6: version `GLIBC_2.99' not found (required by x)",
     "glibc-too-old"),
    ("ImportError", "dynamic module does not define module export function (PyInit_amp_C)",
     "not-a-module"),
    ("ImportError", "{path}: file too short", "wrong-file"),
    ("ImportError", "{path}: cannot enable executable stack as shared object requires: x",
     "exec-stack"),
    ("RuntimeError", "Found no NVIDIA driver on your system. Please check", "no-driver"),
    ("RuntimeError", "CUDA error: no kernel image is available for execution on the device",
     "no-kernel-image-run"),
    ("RuntimeError", "CUDA error: the provided PTX was compiled with an unsupported toolchain.",
     "ptx-toolchain"),
    ("RuntimeError", "Cannot re-initialize CUDA in forked subprocess. To use CUDA with",
     "fork-after-cuda"),
    ("TypeError", "something else", "import-error"),
])
def test_texts_of_the_loader_are_understood(tmp_path, kind, text, code):
    path = tmp_path / "amp_C.so"
    found = Found("amp_C", path, MODULE, None)
    answer = {"ok": False, "kinds": [kind, "Exception"], "text": text.format(path=path),
              "missing": None}
    fill = {"torch": "2.6.0", "rebuild": "make image"}
    assert load.understood("amp_C", answer, found, fill).code == code


@pytest.mark.parametrize("text", [
    "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    "The NVIDIA driver on your system is too old (found version 11040)."])
@pytest.mark.parametrize(("there", "code"), [(True, "driver-too-old"), (False, "no-driver")])
def test_no_driver_and_an_old_one_are_told_apart(tmp_path, monkeypatch, text, there, code):
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(device, "_NODES", (tmp_path / ("nvidiactl" if there else "absent"),))
    found = Found("amp_C", tmp_path / "amp_C.so", MODULE, None)
    answer = {"ok": False, "kinds": ["RuntimeError"], "text": text, "missing": None}
    assert load.understood("amp_C", answer, found, {"torch": "2.6.0", "rebuild": "x"}).code == code


def test_another_file_than_the_judged_one_is_noticed(tmp_path):
    found = Found("amp_C", tmp_path / "amp_C.so", MODULE, None)
    answer = {"ok": True, "file": str(tmp_path / "elsewhere/amp_C.so")}
    assert load.understood("amp_C", answer, found, {"rebuild": "x"}).code == "shadowed"
    assert load.understood("amp_C", None, found, {"rebuild": "x"}).code == "not-loaded"


def test_the_child_needs_the_standard_library_alone():
    import ast
    from importlib import resources
    tree = ast.parse((resources.files("apexlab.verify") / "child.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
             for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names - {"torch"} <= set(sys.stdlib_module_names)
