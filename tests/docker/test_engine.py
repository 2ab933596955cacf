"""What is said when the engine is missing, dead, forbidden or full, and after a failed build."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from apexlab.build import engine
from apexlab.build.errors import EngineError, ImageBuildError
from apexlab.build.image_build import bake, failure
from apexlab.build.image_failures import KNOWN, explain
from apexlab.build.image_progress import Tracker

CELL = ("image", "--torch", "2.6", "--cuda", "12.4")


def program(folder, text: str) -> dict[str, str]:
    """An environment whose `docker` is this shell script, and which has no other."""
    folder.mkdir(exist_ok=True)
    (folder / "docker").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "docker").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:/usr/sbin:/sbin"}


def test_without_docker_it_says_so_and_names_what_needs_none(run_apexlab, tmp_path):
    done = run_apexlab(*CELL, env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 4
    assert "no docker command" in done.stderr
    assert "make try" in done.stderr


def test_without_buildx_it_names_the_package(run_apexlab, tmp_path):
    done = run_apexlab(*CELL, env=program(tmp_path / "bin", "exit 1"))
    assert done.returncode == 4
    assert "docker-buildx" in done.stderr


def test_without_a_daemon_it_says_how_to_start_one(run_apexlab, tmp_path):
    environ = program(tmp_path / "bin", "exit 0")
    done = run_apexlab(*CELL, env={**environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert done.returncode == 4
    assert "systemctl start docker" in done.stderr


def test_a_docker_context_that_does_not_exist_is_no_failed_build(run_apexlab, tmp_path):
    environ = program(tmp_path / "bin", '[ "$1" = buildx ]')
    environ.pop("DOCKER_HOST", None)
    done = run_apexlab(*CELL, env=environ)
    assert done.returncode == 4
    assert "docker context ls" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_rights_on_the_socket_it_says_how_to_get_them(monkeypatch):
    pytest.importorskip("docker")  # before this process becomes somebody who may not read it
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as server:
        folder = Path(name)
        folder.chmod(0o755)
        server.bind(f"{folder}/docker.sock")
        (folder / "docker.sock").chmod(0o600)
        monkeypatch.setenv("PATH", program(folder / "bin", "exit 0")["PATH"])
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
        os.seteuid(65534)
        try:
            with pytest.raises(EngineError, match="group docker"):
                engine.connect()
        finally:
            os.seteuid(0)


def test_a_disk_too_small_is_found_before_the_build():
    with pytest.raises(EngineError, match=r"about 25 GB.*7\.0 GB are free"):
        engine.check_room(7 * engine.GB, "nvidia", built_before=False)


def test_a_rebuild_needs_little_room_and_an_engine_elsewhere_is_not_judged():
    engine.check_room(7 * engine.GB, "nvidia", built_before=True)
    engine.check_room(None, "nvidia", built_before=False)


# What BuildKit, apt, pip and uv print; the first three were seen on engines without a network.
@pytest.mark.parametrize(("line", "words"), [
    ("dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host", "network"),
    ("E: Failed to fetch http://x/y  Temporary failure resolving 'x'", "network"),
    ("failed to resolve source metadata for docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04: "
     "docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04: not found", "gone from its registry"),
    ("manifest for nvidia/cuda:10.2-base not found: manifest unknown", "gone from its registry"),
    ("pull access denied, repository does not exist or may require authorization", "base-images"),
    ("write /var/lib/docker/x: no space left on device", "disk"),
    ("ERROR: permission denied while trying to connect to the Docker daemon", "group docker"),
    ("ERROR: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
     "systemctl start docker"),
    ("docker: 'buildx' is not a docker command.", "docker-buildx"),
    ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
     "failed: self-signed certificate in certificate chain'))", "--ca FILE"),
    ("invalid peer certificate: UnknownIssuer", "--ca FILE"),
    ("ERROR: No matching distribution found for torch==2.6.0", "package index"),
])  # fmt: skip
def test_a_known_failure_gets_a_paragraph_with_the_next_step(line, words):
    assert words in (explain([line]) or "")


def test_every_paragraph_can_be_reached():
    assert len({known.message for known in KNOWN}) == len(KNOWN)


def test_an_unknown_failure_is_not_explained_away():
    assert explain(["error: expected ';' before '}' token"]) is None


FAILED = """\
#4 [wheel 1/1] RUN --mount=type=cache,id=a,target=/a     <<'EOF' (set -eu...)
#4 1.204 jobs    2 x 1 nvcc threads
#4 2.533   0:01 [1/13] apex_C: 1 of 1 files
#4 9.118 apexlab: The build failed. A compiler was killed: out of memory.
#4 9.118 The full log: /out/build.log
#4 9.120 c++: fatal error: Killed signal terminated program cc1plus
#4 9.121 apexlab: The build failed. A compiler was killed: out of memory.
#4 9.121 The full log: /out/build.log
#4 ERROR: process "/bin/sh -c set -eu" did not complete successfully: exit code: 1
#5 CANCELED
ERROR: target x: failed to solve: process "/bin/sh -c set -eu" did not complete successfully
"""


def fed(text: str) -> tuple[Tracker, list[str]]:
    tracker = Tracker()
    return tracker, [shown for line in text.splitlines() if (shown := tracker.feed(line))]


def test_progress_names_the_step_and_passes_the_compilation_on():
    _, shown = fed(FAILED)
    assert shown == ["wheel 1/1: compiling Apex", "[1/13] apex_C: 1 of 1 files"]


def test_a_step_from_the_cache_is_no_news():
    assert fed("#4 [venv 1/2] FROM x\n#4 CACHED\n#4 DONE 0.0s\n")[1] == []


def test_what_apexlab_said_in_the_failed_step_is_the_error(tmp_path):
    tracker, _ = fed(FAILED)
    error = failure(tracker, FAILED.splitlines(), tmp_path / "log")
    assert isinstance(error, ImageBuildError)
    assert "The build stopped at wheel 1/1. The build failed. A compiler was killed" in str(error)
    assert "/out/build.log" not in str(error)
    assert str(error).splitlines()[-1] == f"No image was tagged. Full log: {tmp_path}/log"


def test_a_retry_that_went_well_does_not_explain_a_later_failure(tmp_path):
    text = ("#2 [venv 1/2] RUN a\n#2 0.1 WARNING: Retrying: connection timed out\n#2 DONE 1.0s\n"
            "#3 [runtime 1/1] RUN b\n#3 0.2 something else broke\n#3 ERROR: exit code: 1\n")
    tracker, _ = fed(text)
    error = failure(tracker, text.splitlines(), tmp_path / "log")
    assert isinstance(error, ImageBuildError)
    assert "exit code: 1" in str(error)
    assert "something else broke" in tracker.tail(2)


def test_the_error_before_any_step_is_found(tmp_path):
    script = "cat >/dev/null; echo 'ERROR: Cannot connect to the Docker daemon'; exit 1"
    with pytest.raises(EngineError, match="systemctl start docker"):
        bake({}, tmp_path, tmp_path / "logs" / "log", lambda _: None, ("sh", "-c", script))
