"""Builds that must fail: the last lines say why, and nothing is tagged."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.docker
TAG = "apexlab-test:never"

# What a build from a broken source must say at its end.
REASONS = {
    "python-only": "Python-only build",
    "drop-extension": "fused_layer_norm_cuda is absent",
    "undefined-symbol": "was built for another torch",
    "missing-libcudart": "libcudart.so.99",
    "no-device-code": "no device code",
    "wrong-arch": "no code for sm_90",
    "wrong-suffix": "for Python 3.10",
    "truncated": "truncated",
    "crash-on-import": "fused_layer_norm_cuda",
    "hang-on-import": "fused_layer_norm_cuda",
}


def tagged(engine) -> bool:
    return any(TAG in image.tags for image in engine.images.list())


@pytest.mark.parametrize(("mode", "reason"), REASONS.items(), ids=REASONS)
def test_a_broken_source_gives_no_image_and_the_last_lines_say_why(
    engine, runtime, image_build, sabotaged, mode, reason
):
    done = image_build(sabotaged(mode), "--target", "runtime", "--tag", TAG)
    assert done.returncode == 1, done.stderr[-3000:]
    end = "\n".join(done.stderr.splitlines()[-8:])
    assert reason in end
    assert "No image was tagged" in end
    assert not tagged(engine)


def test_an_address_that_does_not_resolve_is_a_matter_of_the_network(engine, run_apexlab):
    done = run_apexlab("image", "--torch", "2.6", "--cuda", "12.4", "--tag", TAG, "--build-arg",
                       "BASE_IMAGE=registry.invalid/cuda:1", "--build-arg",
                       "DEVEL_IMAGE=registry.invalid/cuda:2")  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "network" in done.stderr
    assert "registry.invalid/cuda:1" in done.stderr


def test_a_tag_that_its_registry_deleted_is_named(engine, run_apexlab, empty_registry):
    done = run_apexlab("image", "--torch", "2.6", "--cuda", "12.4", "--tag", TAG, "--build-arg",
                       f"BASE_IMAGE={empty_registry}/cuda:1.2.3-base-x")  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "gone from its registry" in done.stderr
    assert "1.2.3-base-x" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupted_build_tags_nothing_and_ends_with_130(engine, runtime, sabotaged, number):
    root = Path(__file__).resolve().parents[2]
    source = sabotaged("hang-on-import")  # so that there is a long step to interrupt
    # A tree that was built before would take the compiled wheel from the cache, without a word.
    (source / "csrc" / "never-built-before.h").write_text(f"// {time.time_ns()}\n")
    program = Path(sys.executable).with_name("apexlab")
    child = subprocess.Popen(
        [program, "image", "--torch", "2.6", "--cuda", "12.4", "--base", "offline", "--archs",
         "9.0", "--apex-source", source, "--target", "runtime", "--tag", TAG],
        cwd=root, stderr=subprocess.PIPE, text=True,
        # A shell that starts the tests in the background makes them ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    for line in child.stderr:
        if "wheel 1/" in line:  # its first step compiles
            break
    time.sleep(1)
    child.send_signal(number)
    _, rest = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "interrupted" in rest
    assert not tagged(engine)
