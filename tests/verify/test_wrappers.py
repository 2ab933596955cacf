"""Apex's own Python side at the level load, with the real torch: the stand-in, sound and spoilt."""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.cuda

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from apexlab.verify.main import main; main()"


@pytest.fixture(scope="module")
def wheels(cuda_env, standin_tools):
    """The sound wheel of the stand-in, in each layout."""
    return {name: standin_tools.build_wheel(
        cuda_env.python, cuda_env.environ(), ROOT / ".cache", layout=layout)
        for name, layout in (("modules", ""), ("libraries", "_extensions"))}


@pytest.fixture
def installed(wheels, tmp_path):
    """Unpacks a wheel into a folder of its own."""
    def unpack(layout: str) -> Path:
        with zipfile.ZipFile(wheels[layout]) as archive:
            archive.extractall(tmp_path)
        return tmp_path
    return unpack


@pytest.fixture
def judged(cuda_env):
    """The report of the level load where `site` comes first on the path, and its errors."""
    def judge(site: Path) -> tuple[dict, dict[str, dict]]:
        done = subprocess.run(
            [cuda_env.python, "-c", MAIN, "verify", "--level", "load", "--json"],
            capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(site), "CUDA_VISIBLE_DEVICES": ""})
        report = json.loads(done.stdout)
        assert done.returncode == report["exit_code"], done.stderr
        return report, {one["code"]: one for one in report["findings"]
                        if one["severity"] in ("error", "incomplete")}
    return judge


@pytest.mark.parametrize("layout", ["modules", "libraries"])
def test_a_sound_installation_loads_with_all_of_its_python_side(installed, judged, layout):
    report, errors = judged(installed(layout))
    assert errors == {}
    status = [one["status"] for one in report["extensions"] if one["expected"]]
    assert set(status) <= {"loaded", "present"} and status.count("loaded") >= 11


@pytest.mark.parametrize("layout", ["modules", "libraries"])
def test_what_multi_tensor_apply_keeps_to_itself_is_brought_to_light(installed, judged, layout):
    site = installed(layout)
    place = site / "apex/multi_tensor_apply/multi_tensor_apply.py"
    text = place.read_text()
    spoilt = text.replace('module("amp_C")', 'module("amp_C").no_such; import no_such_helper')
    assert spoilt != text
    place.write_text(spoilt.replace("except ImportError", "except (ImportError, AttributeError)"))
    _, errors = judged(site)
    assert set(errors) == {"error-swallowed"}
    assert errors["error-swallowed"]["extensions"] == ["amp_C"]
    assert "no_such" in errors["error-swallowed"]["message"]


def test_a_python_side_for_a_newer_torch_is_one_failure(installed, judged):
    site = installed("modules")
    with (site / "apex/normalization/__init__.py").open("a") as file:
        file.write("\nimport torch\ntorch.library.of_a_later_torch\n")
    _, errors = judged(site)
    assert set(errors) == {"torch-lacks"}
    assert "has no torch.library.of_a_later_torch" in errors["torch-lacks"]["message"]


def test_a_broken_extension_is_said_once_although_wrappers_stumble_over_it(installed, judged):
    site = installed("modules")
    file, = site.glob("amp_C*.so")
    file.write_bytes(file.read_bytes()[:50_000])
    _, errors = judged(site)
    assert set(errors) <= {"wrong-file", "tampered"} and "wrong-file" in errors
    assert errors["wrong-file"]["extensions"] == ["amp_C"]


def test_a_library_that_registers_nothing_is_not_loaded(installed, judged):
    site = installed("libraries")
    file, = site.glob("_syncbn*.so")
    subprocess.run(["gcc", "-shared", "-o", file, "-x", "c", "/dev/null"], check=True)
    _, errors = judged(site)
    assert "no-operations" in errors and errors["no-operations"]["extensions"] == ["syncbn"]


def test_a_library_without_its_shim_serves_nobody(installed, judged):
    site = installed("libraries")
    (site / "apex/_extensions/syncbn.py").unlink()
    _, errors = judged(site)
    assert set(errors) == {"shim-missing"}


def test_the_nearest_library_is_what_the_real_shim_takes(installed, judged):
    site = installed("libraries")
    file, = site.glob("_syncbn*.so")
    nearer = site / "apex/_extensions/_syncbn.cpython-310-x86_64-linux-gnu.so"
    shutil.move(file, nearer)
    file.write_bytes(b"further away, and never looked at")
    report, errors = judged(site)
    assert errors == {}
    assert next(one["path"] for one in report["extensions"] if one["name"] == "syncbn") == str(
        nearer)
