"""The level load: every way in which an import can end is told apart, and none ends verify."""

import sys
import time

import pytest

from apexlab.verify import check, load, site
from apexlab.verify.errors import CannotError


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


def test_libraries_of_the_other_layout_are_loaded_by_torch(maker, folder):
    maker.healthy(folder)
    maker.library(folder / "_amp_C.abi3.so", "__attribute__((constructor)) void f(void) "
                  "{ extern void abort(void); abort(); }")
    report = judged(folder, "amp_C")
    assert "crash" in codes(report)


def test_what_torch_hides_in_the_cause_of_its_error_is_understood(maker, folder):
    maker.healthy(folder)
    with (folder / "torch/__init__.py").open("a") as file:
        file.write("    @staticmethod\n    def load_library(path):\n"
                   "        try: ctypes.CDLL(path)\n"
                   "        except OSError as error:\n"
                   "            raise OSError('Could not load this library: ' + path) from error\n")
    maker.extension(folder, "amp_C", file="_amp_C.abi3.so", init="none",
                    code=maker.fatbin("sm_90"), calls=("forgotten",))
    assert codes(judged(folder, "amp_C")) == {"undefined-symbol"}


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
    ("TypeError", "something else", "import-error"),
])
def test_texts_of_the_loader_are_understood(tmp_path, kind, text, code):
    path = tmp_path / "amp_C.so"
    found = site.Found("amp_C", path, site.MODULE, None)
    answer = {"ok": False, "kinds": [kind, "Exception"], "text": text.format(path=path),
              "missing": None}
    fill = {"torch": "2.6.0", "rebuild": "make image"}
    assert load.understood("amp_C", answer, found, fill).code == code


def test_another_file_than_the_judged_one_is_noticed(tmp_path):
    found = site.Found("amp_C", tmp_path / "amp_C.so", site.MODULE, None)
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
