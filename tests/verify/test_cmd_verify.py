"""`apexlab verify` as a command: exit codes, the JSON document, the text for people."""

import json
import os
import re
import subprocess
import sys
import zipfile

import jsonschema
import pytest

from apexlab.verify import check, device, judge, render, site
from apexlab.verify.device import parse_driver_version
from apexlab.verify.findings import finding
from apexlab.verify.report import Device, Finding, schema

NAMES = ("apex_C", "amp_C")


def apexlab(*args, **environ):
    script = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", script, "verify", *map(str, args)], capture_output=True, text=True,
        env={**os.environ, **environ})


@pytest.fixture
def sound(maker, folder):
    return maker.healthy(folder, *NAMES)


@pytest.fixture
def required():
    return [word for name in NAMES for word in ("--require", name)]


def test_static_and_load_end_with_0(sound, required):
    for level in ("static", "load"):
        done = apexlab("--site", sound, *required, "--level", level)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("OK ")
        assert done.stderr == ""


@pytest.fixture
def no_gpu():
    if device.look().devices:
        pytest.skip("this machine has a GPU")


def test_the_default_level_ends_with_4_without_a_gpu(sound, required, no_gpu):
    done = apexlab("--site", sound, *required)
    assert done.returncode == 4
    assert done.stdout.startswith("INCOMPLETE   2 of 2 ")
    assert "everything up to load is ok" in " ".join(done.stdout.split())
    assert "docker run --gpus all" in done.stdout and "--level load" in done.stdout


def test_allow_no_gpu_turns_4_into_0_and_nothing_else(sound, required, no_gpu):
    done = apexlab("--site", sound, *required, "--allow-no-gpu")
    assert done.returncode == 0 and done.stdout.startswith("INCOMPLETE")
    done = apexlab("--site", sound, *required, "--require", "syncbn", "--allow-no-gpu")
    assert done.returncode == 1 and done.stdout.startswith("BROKEN")


def test_a_problem_ends_with_1_and_the_fix(sound):
    done = apexlab("--site", sound, "--level", "static", "--require", "syncbn")
    assert done.returncode == 1
    assert "error  not-installed: syncbn" in done.stdout
    assert "  fix: " in done.stdout


@pytest.mark.parametrize("args", [
    ["--level", "deep"], ["--arch", "nine"], ["--arch", "9.0,8.0"], ["--require", "../x"],
    ["--site", "/absent"], ["--wheel", "/absent.whl"],
])
def test_bad_requests_end_with_2(args):
    done = apexlab(*args)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


@pytest.mark.parametrize("arch", ["9.7", "99.0", "1.0", "12.1+PTX"])
def test_a_gpu_that_does_not_exist_is_a_bad_request(sound, arch):
    done = apexlab("--site", sound, "--arch", arch)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "PTX" in arch or f"{arch}. Known are 3.5, " in done.stderr


@pytest.mark.parametrize(("name", "meant"), [
    ("amp_c", "Did you mean amp_C"), ("fused_layernorm_cuda", "fused_layer_norm_cuda"),
    ("xentropy", "Did you mean xentropy_cuda?"), ("numpy", "No version of Apex has"),
])
def test_a_name_that_no_apex_has_is_a_bad_request(sound, name, meant):
    done = apexlab("--site", sound, "--require", name)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert meant in done.stderr


def test_contrib_modules_and_names_with_their_underscore_may_be_required(sound):
    done = apexlab("--site", sound, "--level", "static", "--require", "xentropy_cuda",
                   "--require", "_amp_C", "--require", "_apex_nccl_allocator")
    assert done.returncode == 1 and "not-installed: xentropy_cuda" in done.stdout


def test_a_folder_without_apex_is_one_paragraph_and_1(tmp_path, maker):
    maker.torch(tmp_path)
    done = apexlab("--site", tmp_path, "--level", "load")
    assert done.returncode == 1 and done.stdout.count("apex-missing") == 1
    assert "not-installed" not in done.stdout and done.stderr == ""


def test_a_wheel_of_another_project_has_no_apex(tmp_path):
    path = tmp_path / "numpy-2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("numpy/__init__.py", "")
    done = apexlab("--wheel", path, "--level", "static")
    assert done.returncode == 1 and "apex-missing" in done.stdout


@pytest.mark.parametrize("schema", ["apexlab.record/2", "apexlab.record/17"])
def test_a_record_from_the_future_says_so(sound, tmp_path, schema):
    (tmp_path / "record.json").write_text(json.dumps({"schema": schema}))
    done = apexlab("--site", sound, "--record", tmp_path / "record.json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert "a newer apexlab wrote it" in done.stderr


def test_two_things_to_judge_are_a_bad_request(sound, tmp_path):
    (tmp_path / "a.whl").write_bytes(b"")
    done = apexlab("--site", sound, "--wheel", tmp_path / "a.whl")
    assert done.returncode == 2 and "--wheel and --site" in done.stderr


def test_an_unreadable_record_ends_with_4(sound, tmp_path):
    for text in ("", "[]", '{"schema": "apexlab.record/2"}', '{"schema": "apexlab.record/1"}'):
        (tmp_path / "record.json").write_text(text)
        done = apexlab("--site", sound, "--record", tmp_path / "record.json")
        assert done.returncode == 4, done
        assert "record.json cannot be read" in done.stderr and "Traceback" not in done.stderr


def test_a_broken_wheel_ends_with_1(tmp_path):
    (tmp_path / "apex.whl").write_bytes(b"hello")
    done = apexlab("--wheel", tmp_path / "apex.whl")
    assert done.returncode == 1 and "cannot be read" in done.stderr


def test_json_is_one_document_that_fits_its_schema(sound, required, record_of, tmp_path):
    record = record_of(sound, *NAMES)
    (tmp_path / "record.json").write_text(record.to_json())
    for args in (required, ["--record", tmp_path / "record.json"], ["--require", "syncbn"]):
        done = apexlab("--site", sound, "--json", "--level", "load", *args)
        document = json.loads(done.stdout)
        jsonschema.validate(document, schema("verify-1"))
        assert document["exit_code"] == done.returncode
        assert done.stderr == ""
    jsonschema.validate(json.loads(record.to_json()), schema("record-1"))


@pytest.mark.parametrize("name", ["verify-1", "inspect-1", "record-1"])
def test_the_schemas_are_schemas_and_refuse_something(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "apexlab.other/1"}, schema(name))


def test_another_source_than_apex_is_named_at_the_top(sound, record_of, tmp_path):
    record = record_of(sound, *NAMES, source="mimic")
    (tmp_path / "record.json").write_text(record.to_json())
    done = apexlab("--site", sound, "--level", "static", "--record", tmp_path / "record.json")
    second = done.stdout.splitlines()[1]
    assert "mimic 5c8860f1 (this is not NVIDIA Apex)" in second


def test_pipes_get_no_colours_and_force_color_gets_them(sound, required):
    plain = apexlab("--site", sound, *required, "--level", "static")
    assert "\x1b" not in plain.stdout
    forced = apexlab("--site", sound, *required, "--level", "static", FORCE_COLOR="1", NO_COLOR="")
    assert "\x1b[" in forced.stdout
    strip = re.sub(r"\x1b\[[\d;]*m", "", forced.stdout)
    times = re.compile(r"\d+\.\d s\n")
    assert times.sub("", strip).split() == times.sub("", plain.stdout).split()


def test_a_wheel_is_judged_by_its_name(sound, tmp_path, required):
    path = tmp_path / "apex-0.1-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("apex/__init__.py", "")
    done = apexlab("--wheel", path, "--level", "static", *required)
    assert done.returncode == 1 and "python-only" in done.stdout and path.name in done.stdout


# The verdict, from findings alone.

def found(code: str, severity: str) -> Finding:
    return Finding(code, severity, "", "")


@pytest.mark.parametrize(("causes", "allow", "verdict", "code"), [
    ([], False, "ok", 0),
    ([("no-record", "info"), ("jit-only", "warning")], False, "ok", 0),
    ([("no-gpu", "incomplete")], False, "incomplete", 4),
    ([("no-gpu", "incomplete")], True, "incomplete", 0),
    ([("no-gpu", "incomplete"), ("torch-unknown", "incomplete")], True, "incomplete", 4),
    ([("instrument-blind", "incomplete")], True, "incomplete", 4),
    ([("crash", "error"), ("no-gpu", "incomplete")], True, "broken", 1),
])
def test_problems_win_over_what_could_not_be_checked(causes, allow, verdict, code):
    assert judge.verdict_of([found(*cause) for cause in causes], allow) == (verdict, code)


def test_a_gpu_that_torch_cannot_use_leaves_everything_unproven(sound, monkeypatch):
    seen = device.Visible((Device("NVIDIA H200", "9.0"),))
    monkeypatch.setattr(check, "look", lambda: seen)
    monkeypatch.setattr(check, "driver_version", lambda: "550.90.07")
    report = check.check(site.folder_site(sound), check.Options(level="run", require=NAMES,
                                                                allow_no_gpu=True))
    assert (report.verdict, report.exit_code) == ("incomplete", 4)
    assert "gpu-unusable" in {one.code for one in report.findings}
    text = "\n".join(line.mark + line.text for line in render.lines(report))
    assert "NVIDIA H200 (9.0) · driver 550.90.07" in text and "PROVEN" not in text


def test_a_visible_gpu_without_code_for_it_is_a_problem_at_every_level(sound, monkeypatch):
    monkeypatch.setattr(check, "look", lambda: device.Visible((Device("Tesla T4", "7.5"),)))
    report = check.check(site.folder_site(sound), check.Options(require=NAMES))
    assert [one.code for one in report.errors] == ["no-kernel-image"]
    assert "Tesla T4 (7.5)" in report.errors[0].message


@pytest.mark.parametrize("text", [
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build  (nixbld@)\n"
    "GCC version:  gcc version 15.3.0 (GCC)\n",
])
def test_the_drivers_version_is_read_in_both_its_forms(text):
    assert parse_driver_version(text) == "550.90.07"
    assert parse_driver_version("nonsense") is None


@pytest.mark.parametrize(("init", "count", "said"), [
    (100, 0, "error 100, no device"), (803, 0, "error 803, its library and its kernel module"),
    (0, 0, "the driver shows none with CUDA_VISIBLE_DEVICES='7'"), (0, 1, ""), (12345, 0, "12345"),
])
def test_why_no_gpu_is_visible_is_said(maker, tmp_path, init, count, said):
    # A driver's library of three functions, and a device node beside it.
    maker.library(tmp_path / "libcuda.so.1", f"""
        int cuInit(unsigned flags) {{ return {init}; }}
        int cuDeviceGetCount(int *count) {{ *count = {count}; return 0; }}
        int cuDeviceGet(int *device, int index) {{ *device = index; return 0; }}
        int cuDeviceGetName(char *name, int size, int device) {{ name[0] = 'X'; return 0; }}
        int cuDeviceGetAttribute(int *value, int which, int device) {{ *value = 9; return 0; }}
    """, "-Wl,-soname,libcuda.so.1")
    (tmp_path / "node").touch()
    code = ("from pathlib import Path; from apexlab.verify import device; "
            f"device._NODES = (Path({str(tmp_path / 'node')!r}),); "
            "seen = device.look(); print(seen.why_none, '|', seen.fails, *seen.devices)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path),
                               "CUDA_VISIBLE_DEVICES": "7"})
    why, devices = done.stdout.strip().split("|")
    assert said in why and bool(why.strip()) == bool(said), done.stderr
    assert ("capability='9.9'" in devices) == bool(count)
    # That there is no GPU is no failure of the driver.
    assert devices.split()[0] == str(init not in (0, 100))


def test_no_driver_and_a_driver_without_its_library_are_told_apart(tmp_path, monkeypatch, no_gpu):
    monkeypatch.setattr(device, "_NODES", (tmp_path / "nvidiactl",))
    assert device.look().why_none == f"there is no {tmp_path / 'nvidiactl'}"
    (tmp_path / "nvidiactl").touch()
    assert device.look().why_none.endswith("the driver's library libcuda.so.1 is not")


def test_an_unknown_code_is_refused():
    with pytest.raises(KeyError):
        finding("no-such-code")
