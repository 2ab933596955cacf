"""Files, records and surroundings that lie, or are merely unlucky: never a comforting answer, never
an internal error."""

import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from apexlab.verify import (
    check,
    cubin,
    fatbin,
    kernels,
    library,
    loader,
    render,
    site,
    summary,
    wheel,
)
from apexlab.verify.errors import CannotError, UnreadableError
from apexlab.verify.record import parse_record, read_record
from apexlab.verify.static import verify_site

PROGRAM = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"


def apexlab(*args, code=PROGRAM, cwd=None, stdout=subprocess.PIPE, **environ):
    return subprocess.run(
        [sys.executable, "-c", code, "verify", *map(str, args)], stdout=stdout,
        stderr=subprocess.PIPE, text=True, cwd=cwd, env={**os.environ, **environ}, timeout=120)


def codes(report, severity="error"):
    return {found.code for found in report.findings if found.severity == severity}


@pytest.fixture
def sound(maker, folder):
    return maker.healthy(folder, "apex_C", "amp_C")


# The package that is imported is not the one that was built.

def test_extensions_without_the_package_are_no_installation(sound):
    shutil.rmtree(sound / "apex")
    assert codes(verify_site(sound, require=("amp_C",))) == {"package-missing"}


def test_what_an_interrupted_uninstall_leaves_is_no_package(sound):
    (sound / "apex" / "__init__.py").unlink()
    assert codes(verify_site(sound, require=("amp_C",))) == {"package-missing"}


@pytest.fixture
def first(tmp_path):
    """A folder with a clone of apex, Python code alone, that comes before the installation."""
    clone = tmp_path / "clone" / "apex"
    clone.mkdir(parents=True)
    (clone / "__init__.py").touch()
    return clone.parent


def on_the_path(sound, *more, cwd=None, level="static"):
    done = apexlab("--level", level, "--require", "amp_C", "--json", cwd=cwd,
                   PYTHONPATH=os.pathsep.join(map(str, (*more, sound))))
    return json.loads(done.stdout), done.returncode


def test_a_clone_that_comes_first_on_the_path_is_a_problem(sound, first):
    report, code = on_the_path(sound, first)
    assert code == 1 and report["findings"][0]["code"] == "package-shadowed"
    assert str(first / "apex") in report["findings"][0]["message"]


def test_libraries_inside_of_a_shadowed_package_are_absent(maker, folder, first):
    maker.healthy(folder)
    maker.library_of(folder, "amp_C", file="apex/_extensions/_amp_C.abi3.so")
    assert on_the_path(folder)[1] == 0
    report, code = on_the_path(folder, first)
    assert code == 1 and report["findings"][0]["code"] == "python-only"


@pytest.mark.parametrize("level", ["static", "load"])
def test_a_clone_in_the_current_folder_is_named_and_never_judged(sound, first, level):
    report, code = on_the_path(sound, cwd=first, level=level)
    warning = next(one for one in report["findings"] if one["code"] == "clone-here")
    assert code == 0 and warning["severity"] == "warning"
    assert str(first / "apex") in warning["message"]
    assert all(not (one["path"] or "").startswith(str(first)) for one in report["extensions"])
    assert "clone-here" not in str(on_the_path(sound, cwd=sound)[0])


def test_a_current_folder_that_was_removed_is_no_matter(sound, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = apexlab("--level", "static", "--require", "amp_C", cwd=gone, PYTHONPATH=str(sound),
                   code=f"import os; os.rmdir({str(gone)!r}); {PROGRAM}")
    assert done.returncode == 0, done.stderr


def test_leftovers_of_a_second_version_are_named(sound):
    for version in ("0.1", "0.1+g5c8860f1"):
        (sound / f"apex-{version}.dist-info").mkdir()
    (sound / "apex-launcher-1.0.dist-info").mkdir()
    report = verify_site(sound, require=("amp_C",))
    assert codes(report, "warning") == {"installed-twice"} and report.exit_code == 0
    assert "2 versions, 0.1+g5c8860f1 and 0.1:" in report.findings[0].message


def test_a_record_that_may_not_be_read_is_not_taken_for_none(sound, monkeypatch):
    info = sound / "apex-0.1.dist-info"
    info.mkdir()
    real = Path.stat

    def stat(path, **more):
        if path.name == site.RECORD_NAME:
            raise PermissionError(13, "Permission denied")
        return real(path, **more)

    monkeypatch.setattr(Path, "stat", stat)  # root, who runs the tests, may read everything
    with pytest.raises(CannotError, match=r"record\.json cannot be read"):
        verify_site(sound, require=("amp_C",))


def test_a_record_of_another_place_does_not_speak_for_this_one(sound, tmp_path, record_of):
    other = tmp_path / "other" / "apex-0.1.dist-info"
    other.mkdir(parents=True)
    (other / site.RECORD_NAME).write_text(record_of(sound, "amp_C", "apex_C").to_json())
    (sound / "apex-0.1.dist-info").mkdir()
    assert site._infos([sound, other.parent]) == [sound / "apex-0.1.dist-info"]


# torch, half there or another one.

@pytest.mark.parametrize("cuda", ["²", "12x.4", "", "x", "1" * 200])
def test_a_torch_with_an_odd_cuda_version_is_survived(maker, folder, cuda):
    maker.torch(folder, cuda=cuda)
    assert site.find_torch([folder]).cuda_major is None


def test_a_torch_without_its_package_or_version_is_no_torch(maker, folder):
    package = maker.torch(folder)
    (package / "version.py").unlink()
    os.mkfifo(package / "version.py")  # reading it would wait for ever
    assert site.find_torch([folder]) is None
    maker.torch(folder.parent / "b")
    (folder.parent / "b/torch/__init__.py").unlink()
    assert site.find_torch([folder.parent / "b"]) is None


def test_a_folder_of_pip_target_uses_the_torch_of_this_python(sound, tmp_path, maker, monkeypatch):
    base = tmp_path / "base"
    maker.torch(base)
    shutil.rmtree(sound / "torch")
    monkeypatch.syspath_prepend(base)
    monkeypatch.setenv("PYTHONPATH", str(base))
    assert verify_site(sound, require=("amp_C",)).exit_code == 0


def test_another_torch_than_the_judged_one_proves_nothing(sound, tmp_path, maker):
    other = tmp_path / "other"
    maker.torch(other)
    subject = replace(site.folder_site(sound), prepend=(str(other), str(sound)))
    report = check.check(subject, check.Options(level="load", require=("amp_C",)))
    assert codes(report) == {"torch-shadowed"} and report.level_reached == "static"
    assert str(other / "torch") in report.errors[0].message


def test_a_library_of_torch_that_cannot_be_read_leaves_the_link_open(sound, maker):
    maker.extension(sound, "amp_C", code=maker.fatbin("sm_90"), calls=("_ZN3c105ErrorEv",))
    (sound / "torch/lib/libc10.so").write_bytes(b"\x7fELF\x02\x01" + b"\xff" * 200)
    report = verify_site(sound, require=("amp_C",))
    assert codes(report, "incomplete") == {"link-unchecked"} and report.exit_code == 4
    assert "libc10.so cannot be read" in report.findings[0].message


# Records.

@pytest.fixture
def text_of(sound, record_of):
    def make(**changes):
        data = json.loads(record_of(sound, "amp_C").to_json())
        for path, value in changes.items():
            *steps, last = path.split("__")
            place = data
            for step in steps:
                place = place[step]
            place[last] = value
        return json.dumps(data)
    return make


@pytest.mark.parametrize("change", [
    {"source": 5}, {"profile": []}, {"created": 1}, {"torch__version": 2.6}, {"torch__cuda": 12.4},
    {"torch__version": "2.6; rm -rf ~"}, {"torch__version": ""}, {"apex__commit": 7},
    {"apex__tree": ["x"]}, {"requested": []}, {"requested": "amp_C"}, {"requested": [1]},
    {"build": {"seconds": float("nan")}}, {"images": {"x": float("inf")}}, {"apex": None},
    {"built": [5]}, {"built": {}}, {"archs": ["nine"]}, {"toolkit": []},
], ids=str)
def test_a_record_with_values_of_the_wrong_kind_is_refused_in_one_paragraph(text_of, change):
    assert parse_record(text_of(), "here")
    with pytest.raises(CannotError, match="here cannot be read: ") as caught:
        parse_record(text_of(**change), "here")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema": 1e999}', "\0", "5", '"schema"', "null",
                                  '{"schema": ' + "9" * 5000 + "}"])
def test_json_that_is_no_record_is_refused(text):
    with pytest.raises(CannotError):
        parse_record(text, "here")


def test_a_record_of_gigabytes_is_not_read(tmp_path):
    with (tmp_path / "record.json").open("wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(CannotError, match="too large"):
        read_record(tmp_path / "record.json")
    with pytest.raises(CannotError, match="cannot be read"):
        read_record(tmp_path)


def test_a_record_of_the_largest_size_is_judged_at_once(sound, text_of):
    names = [f"e{number}" for number in range(100_000)]
    record = parse_record(text_of(requested=["amp_C", *names]), "here")
    started = time.monotonic()
    report = verify_site(sound, record)
    assert len(report.errors[0].extensions) == 100_000 and report.exit_code == 1
    assert time.monotonic() - started < 30


def test_names_cannot_paint_over_the_verdict(sound, text_of):
    evil = "x\x1b[2J\x1b[HOK   13 of 13\nextensions"
    report = verify_site(sound, parse_record(text_of(requested=["amp_C", evil]), "here"))
    for colour in (False, True):
        text = render.text(report, None, colour)
        assert "\x1b[2J" not in text and "\nOK" not in text and "\nextensions" not in text
        assert "x\\x1b[2J" in text


# Folders and files.

def test_ten_thousand_files_are_no_burden(sound):
    for number in range(10_000):
        (sound / f"module_{number}.cpython-311-x86_64-linux-gnu.so.txt").touch()
    started = time.monotonic()
    assert verify_site(sound, require=("amp_C",)).exit_code == 0
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("make", [
    lambda path: path.symlink_to(path.name), lambda path: path.mkdir(), os.mkfifo,
    lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("nowhere"),
])
def test_what_is_no_file_is_broken_and_not_absent(sound, make):
    path = next(sound.glob("amp_C*.so"))
    path.unlink()
    make(path)
    assert codes(verify_site(sound, require=("amp_C",))) == {"wrong-file"}


@pytest.mark.parametrize("loop", ["apex", "apex/_extensions", "torch/lib", "nvidia"])
def test_loops_of_links_end(sound, loop):
    shutil.rmtree(sound / loop, ignore_errors=True)
    (sound / loop).symlink_to(Path(loop).name)
    with pytest.raises(CannotError, match="symbolic links"):
        verify_site(sound, require=("amp_C",))


def test_a_folder_that_may_not_be_read_is_not_called_empty(sound, monkeypatch):
    real = os.listdir

    def listdir(path):
        if str(path) == str(sound):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)  # root, who runs the tests, may read everything
    with pytest.raises(CannotError, match="nothing is said about what it holds"):
        verify_site(sound, require=("amp_C",))


@pytest.mark.parametrize("name", ["x" * 5000, "a/" * 2000 + "x", "/etc/passwd/x", "\udcff.so"])
def test_names_of_needed_libraries_may_be_anything(name, tmp_path):
    assert loader.Search([tmp_path]).find(name, ("$ORIGIN/" + "y" * 5000,), tmp_path) is None


def test_a_32_bit_file_is_named_as_that(sound):
    path = next(sound.glob("amp_C*.so"))
    data = bytearray(path.read_bytes())
    data[4] = 1
    path.write_bytes(data)
    report = verify_site(sound, require=("amp_C",))
    assert codes(report) == {"wrong-file"} and "64-bit" in report.errors[0].message


def test_a_compressed_section_is_said_to_be_unreadable(sound, maker):
    # SHF_COMPRESSED: the data begins with an Elf64_Chdr of type ZLIB, 4,096 bytes long, aligned 8.
    header = (1).to_bytes(8, "little") + (4096).to_bytes(8, "little") + (8).to_bytes(8, "little")
    maker.extension(sound, "amp_C", code=header + b"\x78\x9c" + bytes(range(1, 200)))
    assert codes(verify_site(sound, require=("amp_C",))) == {"unreadable-fatbin"}


def test_a_name_with_its_underscore_is_the_same_extension(sound, maker):
    maker.extension(sound, "amp_C", code=None)
    assert codes(verify_site(sound, require=("_amp_C",))) == {"no-device-code"}


def test_kernel_names_without_end_are_bounded(maker, monkeypatch):
    data = maker.fatbin("sm_90", kernels=tuple(f"_Z{number}" for number in range(100)))
    code = fatbin.Fatbin(memoryview(data), fatbin.read_containers(memoryview(data), Path("x"))[1])
    assert kernels.count([code]) == 100
    for module in (cubin, kernels):
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_NAME_BYTES", 100)
            assert kernels.count([code]) is None


def test_a_library_with_the_old_hash_table_is_read_and_bounded(maker, folder, monkeypatch):
    path = maker.library(folder / "old.so", "int answer(void) { return 42; }",
                         "-Wl,--hash-style=sysv")
    assert library.Library(path).defines(b"answer") and not library.Library(path).defines(b"x")
    monkeypatch.setattr(library, "MAX_NAME_BYTES", 3)
    with pytest.raises(UnreadableError, match="names without end"):
        library.Library(path)


# What an extension does while it is imported.

def test_an_extension_cannot_answer_for_itself_or_for_another(sound, maker):
    answer = json.dumps(json.dumps({"name": "apex_C", "ok": False})).replace("%", "%%")
    body = ("extern int dprintf(int, const char *, ...); extern void _exit(int);"
            f"for (int fd = 3; fd < 64; fd++) dprintf(fd, {answer}); _exit(0);")
    maker.extension(sound, "amp_C", body=body, code=maker.fatbin("sm_90"))
    report = check.check(site.folder_site(sound),
                         check.Options(level="load", require=("amp_C", "apex_C")))
    status = {one.name: one.status for one in report.extensions}
    assert (status["amp_C"], status["apex_C"]) == ("broken", "loaded")
    assert codes(report) == {"exit"}


def test_an_interrupt_ends_everything_with_130(sound, maker, tmp_path):
    mark = tmp_path / "pid"
    body = ("extern int pause(void), getpid(void), dprintf(int, const char *, ...);"
            f'extern int creat(const char *, int); dprintf(creat("{mark}", 0600), "%d", getpid());'
            "for (;;) pause();")
    maker.extension(sound, "amp_C", body=body, code=maker.fatbin("sm_90"))
    # A shell that runs the tests in the background hands on SIGINT as ignored.
    program = f"import signal; signal.signal(2, signal.default_int_handler); {PROGRAM}"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "verify", "--level", "load", "--require", "amp_C",
         "--site", sound], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, err.strip()) == (130, "", "apexlab: interrupted")
    assert not is_running(int(mark.read_text()))


def left_over(mark: str) -> list[int]:
    """The processes whose environment holds `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes().decode("utf-8", "replace"):
                found.append(int(path.name))
        except OSError:
            continue
    return [pid for pid in found if is_running(pid)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("where", ["extension", "wrapper", "torch"])
def test_however_verify_ends_no_child_is_left_behind(sound, maker, tmp_path, how, where):
    ready = tmp_path / "ready"
    wait = f"open({str(ready)!r}, 'w').close(); import time; time.sleep(600)"
    if where == "extension":
        maker.extension(sound, "amp_C", code=maker.fatbin("sm_90"), body=(
            "extern int pause(void), creat(const char *, int); "
            f'creat("{ready}", 0600); for (;;) pause();'))
    elif where == "wrapper":
        (sound / "apex/__init__.py").write_text(wait)
    else:
        (sound / "torch/__init__.py").write_text(wait)
    mark = f"apexlab-test-{os.getpid()}-{how}-{where}"
    program = f"import signal; signal.signal(2, signal.default_int_handler); {PROGRAM}"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "verify", "--level", "load", "--require", "amp_C",
         "--site", sound], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "APEXLAB_TEST_MARK": mark})
    deadline = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(left_over(mark)) >= 2  # verify and the child, at least
    process.send_signal(how)
    _, err = process.communicate(timeout=30)
    if how == signal.SIGINT:
        assert (process.returncode, err) == (130, "\napexlab: interrupted\n")
    deadline = time.monotonic() + 10
    while left_over(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_over(mark) == []


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"  # dead, where nobody asked for its status yet


# Where the answer goes.

@pytest.fixture
def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_left_does_not_change_the_answer(sound, broken_pipe, form):
    for name, code in (("amp_C", 0), ("syncbn", 1)):
        done = apexlab("--site", sound, "--level", "static", "--require", name, *form,
                       stdout=broken_pipe)
        assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_is_said_and_is_no_success(sound, form):
    with Path("/dev/full").open("w") as full:
        done = apexlab("--site", sound, "--level", "static", "--require", "amp_C", *form,
                       stdout=full)
    assert done.returncode == 4 and done.stderr.startswith("apexlab: The result cannot be written")
    assert done.stderr.count("\n") == 1


def test_a_closed_stdout_leaves_the_exit_code(sound):
    code = f"import os, sys; sys.stdout = None; os.close(1); {PROGRAM}"
    done = apexlab("--site", sound, "--level", "static", "--require", "syncbn", code=code)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("level", ["static", "load"])
def test_streams_that_are_closed_for_real_change_nothing(sound, closed, level):
    for name, code in (("amp_C", 0), ("syncbn", 1)):
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", PROGRAM, "verify",
             "--site", sound, "--level", level, "--require", name],
            capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (code, "")
        assert ">&-" in closed.split("2")[0] or done.stdout.startswith(("OK", "BROKEN"))


@pytest.mark.parametrize("environ", [
    {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}])
def test_an_encoding_without_our_signs_is_no_error(sound, environ, tmp_path):
    odd = tmp_path / os.fsdecode(b"odd\xff")
    odd.symlink_to(sound)
    done = apexlab("--site", odd, "--level", "static", "--require", "amp_C", **environ)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.isascii()
    done = apexlab("--site", tmp_path / os.fsdecode(b"no\xff"), **environ)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_a_system_that_cannot_be_written_is_said(sound, tmp_path):
    code = ("import tempfile\ndef refuse(): raise FileNotFoundError(2, 'No usable folder')\n"
            f"tempfile._get_default_tempdir = refuse\n{PROGRAM}")
    with zipfile.ZipFile(tmp_path / "apex.whl", "w") as archive:
        archive.writestr("amp_C.so", b"")
    for args in (["--site", sound, "--level", "load", "--require", "amp_C"],
                 ["--wheel", tmp_path / "apex.whl"]):
        done = apexlab(*args, code=code)
        assert done.returncode == 4 and "Set TMPDIR" in done.stderr, done.stderr
    done = apexlab("--site", sound, "--level", "static", "--require", "amp_C", code=code)
    assert done.returncode == 0


def test_a_full_disk_is_not_the_wheels_fault(tmp_path, monkeypatch):
    path = tmp_path / "apex.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("amp_C.so", b"x")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(wheel, "_extract", full)
    with pytest.raises(CannotError, match="No space left"), wheel.unpacked(path):
        pass


@pytest.mark.parametrize(("tag", "version", "abi"), [
    ("cp313-cp313t", "3.13", "313t"), ("cp399-abi3", "3.99", "399"), ("cp39-cp39", "3.9", "39")])
def test_the_python_of_a_wheel_is_that_of_its_name(tmp_path, tag, version, abi):
    path = tmp_path / f"apex-0.1-{tag}-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("apex/__init__.py", "")
    with wheel.unpacked(path) as subject:
        assert (subject.python.version, subject.python.abi) == (version, abi)
        assert subject.python.executable is None and subject.platform == "linux_x86_64"


def test_debug_keeps_the_exit_code(tmp_path):
    code = PROGRAM.replace("sys.argv[1:]", "['--debug', *sys.argv[1:]]")
    done = apexlab("--level", "deep", code=code)
    assert done.returncode == 2 and "Traceback" in done.stderr
    (tmp_path / "apex.whl").touch()
    done = apexlab("--wheel", tmp_path / "apex.whl", code=code)
    assert done.returncode == 1 and "Traceback" in done.stderr


# What may not be read, by a user who is not root.

def as_nobody(*args, code=PROGRAM):
    return subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c",
         code, "verify", *map(str, args)], capture_output=True, text=True, timeout=120)


@pytest.fixture
def public(maker):
    """A sound site that others than root can reach."""
    if os.getuid() or not shutil.which("setpriv"):
        pytest.skip("only root, with setpriv, can become somebody else")
    if as_nobody(code="import apexlab.verify.main").returncode:
        pytest.skip("another user cannot reach this Python or the sources")
    root = Path(tempfile.mkdtemp(prefix="apexlab-test-"))
    root.chmod(0o755)
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    place = root / "lib" / python / "site-packages"
    place.mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin" / python).symlink_to(sys.executable)
    try:
        maker.healthy(place, "amp_C")
        done = as_nobody("--site", place, "--level", "static", "--require", "amp_C")
        assert done.returncode == 0, done.stdout + done.stderr
        yield place
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("mode", [0o700, 0o744, 0o711])
@pytest.mark.parametrize("closed", ["apex", "torch", "torch/lib", "nvidia"])
def test_what_another_user_may_not_read_is_not_called_absent(public, closed, mode):
    (public / closed).chmod(mode)
    done = as_nobody("--site", public, "--level", "static", "--require", "amp_C")
    if (closed, mode) == ("torch", 0o711):
        assert done.returncode == 0  # all that is read in it has a known name
        return
    assert (done.returncode, done.stdout) == (4, ""), done.stdout + done.stderr
    assert closed in done.stderr and "nothing is said about what it holds" in done.stderr


def test_a_version_of_torch_that_may_not_be_read_is_not_absent(public):
    (public / "torch/version.py").chmod(0o600)
    done = as_nobody("--site", public, "--level", "static", "--require", "amp_C")
    assert done.returncode == 4 and "version.py cannot be read" in done.stderr


def test_a_python_that_may_not_be_seen_is_no_internal_error(public):
    (public.parents[2] / "bin").chmod(0o700)
    done = as_nobody("--site", public, "--level", "static", "--require", "amp_C")
    assert done.returncode == 0, done.stderr


# Files that claim more than they are.

def test_a_file_full_of_holes_is_not_hashed(sound):
    os.truncate(next(sound.glob("amp_C*.so")), 1 << 40)
    report = verify_site(sound, require=("amp_C",))
    assert codes(report) == {"wrong-file"} and "which no extension has" in report.errors[0].message


def test_a_name_without_end_is_cut_in_what_is_said(maker, folder):
    maker.healthy(folder)
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"), calls=("a" * 20_000,))
    report = verify_site(folder, require=("amp_C",))
    assert codes(report) == {"undefined-symbol"} and len(report.errors[0].message) < 2000


def test_a_module_inside_of_the_package_is_not_there_for_import(maker, folder):
    maker.healthy(folder)
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"),
                    file=f"apex/amp_C{next(iter(EXTENSION_SUFFIXES))}")
    for level in ("static", "load"):
        report = check.check(site.folder_site(folder), check.Options(level, ("amp_C",)))
        assert codes(report) == {"misplaced"} and report.exit_code == 1


def test_a_package_of_an_extensions_name_hides_it(sound):
    (sound / "amp_C").mkdir()
    (sound / "amp_C/__init__.py").touch()
    for level in ("static", "load"):
        report = check.check(site.folder_site(sound), check.Options(level, ("amp_C",)))
        assert codes(report) == {"shadowed"} and len(report.errors) == 1


def test_a_folder_of_an_extensions_name_hides_nothing(sound):
    (sound / "amp_C").mkdir()
    assert not codes(verify_site(sound, require=("amp_C",)))


def test_a_needed_library_that_is_cut_off_is_no_ok(maker, folder):
    maker.healthy(folder)
    own = maker.named(folder / "own", "libown.so", "own_function")
    maker.extension(folder, "amp_C", code=maker.fatbin("sm_90"),
                    needs=(own, "-Wl,-rpath,$ORIGIN/own"))
    assert not codes(verify_site(folder, require=("amp_C",)))
    own.write_bytes(b"")
    report = verify_site(folder, require=("amp_C",))
    assert report.exit_code == 4 and codes(report, "incomplete") == {"link-unchecked"}
    report = check.check(site.folder_site(folder), check.Options("load", ("amp_C",)))
    assert report.exit_code == 1 and codes(report) == {"library-broken"}
    assert codes(report, "incomplete") == set() and str(own) in report.errors[0].message


# What is imported can write into the pipe that its answer goes to.

@pytest.mark.parametrize("said", [
    {"text": "x", "kinds": ["A"], "ended": "x"}, {"text": "x", "kinds": ["A"], "hang": "x"},
    {"text": "x", "kinds": [[]], "missing": {}}, {"ok": True, "file": "a\0b"},
    {"text": "\udc80", "kinds": ["A"]}, {"ok": True, "file": "x", "libraries": 5, "ops": {}},
    {"hang": "x"}, {"ended": "x", "output": {}}, {"kinds": 5, "missing": []}, {"kinds": {"a": 1}},
])
@pytest.mark.parametrize("who", ["amp_C", "apex"])
def test_an_answer_of_an_unknown_form_is_no_internal_error(maker, sound, tmp_path, said, who):
    line = json.dumps({"wrapper": "apex", **said}) + "\n"
    if who == "apex":
        (sound / "apex/__init__.py").write_text(
            "import contextlib, os\nfor place in range(3, 64):\n"
            f"    with contextlib.suppress(OSError): os.write(place, {line.encode()!r})\n"
            "os._exit(0)\n")
    else:
        text = json.dumps(line)
        maker.extension(
            sound, "amp_C", code=maker.fatbin("sm_90"),
            more="extern long write(int, const void *, long); extern void _exit(int);",
            body=f"for (int i = 3; i < 64; i++) write(i, {text}, {len(line)}); _exit(0);")
    done = apexlab("--site", sound, "--require", "amp_C", "--level", "load", "--html",
                   tmp_path / "x.html", "--junit", tmp_path / "x.xml")
    assert done.returncode == 1 and done.stdout.startswith("BROKEN"), done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_stderr_changes_no_exit_code(sound, unbuffered):
    for args, code, environ in (
            (["--nope"], 2, {}), (["--site", sound, "--record", "/dev/null"], 4, {}),
            (["--site", sound, "--level", "static", "--require", "amp_C"], 0,
             {"GITHUB_ACTIONS": "true"})):
        with open("/dev/full", "w") as full:  # noqa: PTH123
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, "verify", *map(str, args)], stderr=full,
                stdout=subprocess.DEVNULL, timeout=60,
                env={**os.environ, **environ, "PYTHONUNBUFFERED": unbuffered})
        assert done.returncode == code


@pytest.mark.parametrize("text", ["::error::x", "  ::stop-commands::x"])
def test_no_line_is_a_command_to_github(text):
    assert not render.printable(text).lstrip().startswith("::")
    assert render.printable(f"c10{text.strip()}") == f"c10{text.strip()}"


def test_a_module_of_apex_that_was_lost_is_not_a_ref_without_it(sound):
    info = sound / "apex-0.1.dist-info"
    info.mkdir()
    files = [f"apex/{name}/__init__.py" for name in ("normalization", "optimizers", "tests")]
    (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
    for file in files:
        (sound / file).parent.mkdir()
        (sound / file).touch()
    assert not codes(verify_site(sound, require=("amp_C",)))
    for file in files[1:]:
        py_compile.compile(str(sound / file), cfile=str(sound / f"{file}c"))
        (sound / file).unlink()
    shutil.rmtree(sound / "apex/normalization")
    shutil.rmtree(sound / "apex/tests")  # nobody needs these
    for level in ("static", "load"):
        report = check.check(site.folder_site(sound), check.Options(level, ("amp_C",)))
        assert codes(report) == {"module-lost"} and report.exit_code == 1
        assert report.errors[0].message.startswith("apex.normalization was installed")


def test_what_was_not_imported_is_not_counted_as_imported(maker, sound):
    maker.extension(sound, "amp_C", code=maker.fatbin("sm_90"),
                    more="extern int kill(int, int); extern int getppid(void);",
                    body="kill(getppid(), 9);")
    report = check.check(site.folder_site(sound), check.Options("load", ("apex_C", "amp_C")))
    assert report.exit_code == 4 and codes(report, "incomplete") == {"not-loaded"}
    assert summary.headline(report).startswith("1 of 2 extensions asked for are there and were")


def test_a_process_that_an_import_leaves_behind_is_ended(maker, sound, tmp_path):
    mark = tmp_path / "pid"
    maker.extension(
        sound, "amp_C", code=maker.fatbin("sm_90"),
        more="extern int fork(void), setsid(void), getpid(void), creat(const char *, int);"
             "extern int dprintf(int, const char *, ...); extern unsigned sleep(unsigned);",
        body=f'int f = creat("{mark}", 0600); int p = fork();'
             'if (!p) { setsid(); sleep(60); } dprintf(f, "%d", p);')
    assert not codes(check.check(site.folder_site(sound), check.Options("load", ("amp_C",))))
    state = Path(f"/proc/{mark.read_text()}/stat")
    assert not state.exists() or ") Z " in state.read_text()
