"""The image, as the people who use it meet it. Built once, from the stand-in, on a real engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from apexlab.build.image_labels import disagreements
from apexlab.verify.record import parse_record

pytestmark = pytest.mark.docker
ANY_USER = ("--user", "12345")
MEGABYTE = 10**6


def test_without_arguments_it_verifies_and_says_that_it_could_not_see_a_gpu(runtime):
    done = runtime()
    assert done.returncode == 4, done.stderr
    assert "13 of 13 extensions" in done.stdout
    assert "--gpus all" in done.stdout
    assert "standin" in done.stdout


def test_its_own_words_are_subcommands(runtime):
    done = runtime("verify", "--level", "load")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_second_instrument_is_ready_made_for_there_is_no_compiler(runtime):
    asked = ("from pathlib import Path; from apexlab.verify import interposer; "
             "print(interposer.path(Path('/nowhere')))")
    assert runtime("python", "-c", asked).stdout.strip() == "/opt/apexlab/liblaunches.so"
    done = runtime("python", "-c", "import torch; print(torch.ones(2).sum())",
                   options=("-e", "LD_PRELOAD=/opt/apexlab/liblaunches.so"))
    assert (done.returncode, done.stdout.strip()) == (0, "tensor(2.)"), done.stderr


def test_an_option_alone_is_meant_for_apexlab(runtime):
    assert "verify" in runtime("--help").stdout


@pytest.mark.parametrize("user", [(), ANY_USER, ("--user", "0")], ids=["default", "any", "root"])
def test_any_other_command_is_run_as_it_stands(runtime, user):
    done = runtime("python", "-c", "import torch, apex; print(torch.__version__)", options=user)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2.6.0+cu124"


def test_a_command_that_does_not_exist_fails(runtime):
    assert runtime("verifyy").returncode == 127


@pytest.mark.parametrize("user", [(), ANY_USER], ids=["default", "any"])
@pytest.mark.parametrize("installer", [("pip",), ("uv", "pip")], ids=["pip", "uv"])
def test_every_user_may_install_and_replace_packages(runtime, installer, user):
    # rich is there in another version, so a package has to be taken away as well.
    done = runtime(*installer, "install", "rich==14.0.0", options=user)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("wanted", ["torch==2.5.1", "torch==2.6.0+cu126", "torchvision==0.20.1"])
def test_pip_is_kept_from_replacing_torch_and_names_the_constraint(runtime, wanted):
    done = runtime("pip", "install", wanted)
    assert done.returncode == 1
    assert "(constraint) torch===2.6.0" in done.stdout


@pytest.mark.parametrize("wanted", ["torch==2.5.1", "torch==2.6.0+cu126"])
def test_uv_is_kept_from_replacing_torch(runtime, wanted):
    done = runtime("uv", "pip", "install", wanted)
    assert done.returncode == 1
    assert "unsatisfiable" in done.stderr


def test_what_needs_this_very_torch_can_be_installed(runtime):
    done = runtime("pip", "install", "--dry-run", "torchvision==0.21.0")
    assert done.returncode == 0, done.stderr
    assert "Would install" in done.stdout
    assert "torch-2" not in done.stdout.split("Would install")[1]


def test_the_constraints_can_be_lifted_as_their_file_says(runtime):
    text = runtime("cat", "/opt/apexlab/constraints.txt").stdout
    assert "PIP_CONSTRAINT= pip install" in text
    done = runtime("pip", "install", "--dry-run", "--no-deps", "torch==2.5.1",
                   options=("-e", "PIP_CONSTRAINT="))  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_record_and_labels_agree(runtime):
    record = parse_record(runtime("cat", "/opt/apexlab/record.json").stdout, "the image")
    labels = inspect(runtime)["Config"]["Labels"]
    assert disagreements(labels, record) == []
    assert labels["dev.apexlab.source"] == "standin"
    assert labels["dev.apexlab.evidence"] == "none"
    assert "standin" in labels["org.opencontainers.image.description"]
    assert record.images["base"]["name"] == labels["org.opencontainers.image.base.name"]
    assert record.images["base"]["digest"].startswith("sha256:")


def test_a_label_that_says_something_else_is_noticed(runtime):
    record = parse_record(runtime("cat", "/opt/apexlab/record.json").stdout, "the image")
    labels = {**inspect(runtime)["Config"]["Labels"], "dev.apexlab.torch": "2.5.1"}
    assert disagreements(labels, record) == ["torch: label 2.5.1, record 2.6.0"]


@pytest.mark.parametrize("program", ["nvcc", "gcc", "cc", "g++", "ccache"])
def test_the_slim_image_holds_no_compiler(runtime, program):
    assert runtime("sh", "-c", f"command -v {program}").stdout == ""


def test_the_slim_image_is_torch_and_at_most_600_megabytes(runtime):
    layers = subprocess.run(["docker", "history", "--human=false", "--format", "{{.Size}}",
                             runtime.name], text=True, capture_output=True, check=True)  # fmt: skip
    sizes = [int(line) for line in layers.stdout.split()]
    assert sum(sizes) - max(sizes) < 600 * MEGABYTE, sizes


def test_the_bench_image_compiles_what_torch_compile_needs(bench):
    code = ("#include <Python.h>\nint main(void) { return 0; }\n")
    script = (f"printf '%s' '{code}' >/tmp/a.c && "
              "cc $(python3-config --includes) -c /tmp/a.c -o /tmp/a.o")  # fmt: skip
    done = bench("sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert bench("sh", "-c", "command -v nvcc").stdout == ""


def test_reports_have_a_place_that_every_user_may_write_to(runtime, tmp_path):
    assert runtime("touch", "/results/a", "/workspace/a", options=ANY_USER).returncode == 0


def test_no_certificate_and_no_secret_reached_a_layer(runtime):
    done = runtime("sh", "-c", "env; ls -A /run/secrets 2>/dev/null; pip config list")
    assert "ca.crt" not in done.stdout.replace("/tmp/ca.crt", "")
    command = ["docker", "history", "--no-trunc", "--format", "{{.CreatedBy}}", runtime.name]
    history = subprocess.run(command, text=True, capture_output=True, check=True)
    assert "BEGIN CERTIFICATE" not in history.stdout


def test_the_summary_names_the_next_command(runtime):
    assert f"docker run --rm {runtime.name} verify" in runtime.summary.replace("--gpus all ", "")
    assert "13 of 13 extensions" in runtime.summary


def inspect(image) -> dict:
    done = subprocess.run(["docker", "image", "inspect", image.name], text=True,
                          capture_output=True, check=True)  # fmt: skip
    return json.loads(done.stdout)[0]


def test_a_wheel_is_exported_with_its_record_and_log(runtime, image_build, run_apexlab, tmp_path):
    standin = Path(__file__).resolve().parents[1] / "standin"
    done = image_build(standin, "--target", "wheel", "--out", str(tmp_path / "dist"))
    assert done.returncode == 0, done.stderr
    wheel = next((tmp_path / "dist").glob("apex-*.whl"))
    assert {path.name for path in (tmp_path / "dist").iterdir()} == {
        wheel.name, "record.json", "build.log"}  # fmt: skip
    assert ".torch2.6.0.cu124" in wheel.name
    judged = run_apexlab("verify", "--level", "static", "--wheel", str(wheel))
    assert "13 of 13" in judged.stdout, judged.stdout + judged.stderr
