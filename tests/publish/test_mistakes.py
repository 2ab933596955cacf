"""What people get wrong, and what stops them: it ends in words, and never half-way with a 0."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_images import PASSWORD, Repository, report_of

pytestmark = pytest.mark.docker
APEXLAB = Path(sys.executable).with_name("apexlab")


@pytest.fixture
def asked(repository):
    """(repository, digest, the command line that publishes it)"""
    digest = repository.push()
    file = repository.place.home / f"{digest[7:15]}.json"
    file.write_text(json.dumps(report_of(digest, repository.record)))
    return repository, digest, [str(APEXLAB), "publish", f"{repository.path}@{digest}", "--report",
                                str(file), "--key", str(repository.place.key)]


def test_a_reader_of_the_progress_who_leaves_stops_nothing(asked):
    repository, digest, command = asked
    environ = repository.place.environ()
    environ.pop("PYTHONUNBUFFERED", None)
    line = f"{shlex.join(command)} 2>&1 >/dev/null | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr
    assert set(repository.tags().values()) == {digest} and len(repository.tags()) == 2


def test_without_cosign_it_says_what_to_install(asked):
    repository, _, command = asked
    done = subprocess.run(command, env=repository.place.environ(PATH="/nonexistent"),
                          capture_output=True, text=True)
    assert done.returncode == 4 and "There is no cosign command here" in done.stderr


@pytest.fixture(scope="module")
def locked(place):
    """A key with a password."""
    folder = place.home / "locked"
    folder.mkdir()
    subprocess.run(["cosign", "generate-key-pair"], cwd=folder, check=True, capture_output=True,
                   env=place.environ(COSIGN_PASSWORD="s3cret word"))
    return folder / "cosign.key"


@pytest.mark.parametrize(("password", "words"), [
    (None, "COSIGN_PASSWORD has to be set"), ("another w0rd", "its password in COSIGN_PASSWORD?"),
])
def test_a_password_that_is_not_there_or_wrong_is_never_asked_for(asked, locked, password, words):
    repository, _, command = asked
    environ = repository.place.environ()
    del environ["COSIGN_PASSWORD"]
    environ |= {"COSIGN_PASSWORD": password} if password else {}
    # In a terminal of its own, where a program could ask.
    done = subprocess.run(["script", "--quiet", "--return", "--command",
                           shlex.join([*command[:-1], str(locked)]), "/dev/null"],
                          env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and words in done.stdout, done.stdout
    assert "w0rd" not in done.stdout and repository.tags() == {}


def test_no_password_is_in_a_command_line_or_a_file_or_said(asked, locked, tmp_path):
    repository, _, command = asked
    script = tmp_path / "cosign"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0 $*" >>{tmp_path}/said\ncp -r "$TMPDIR" '
                      f'{tmp_path}/seen-$$\nexec /usr/bin/cosign "$@"\n')
    script.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    done = subprocess.run([*command[:-1], str(locked)], capture_output=True, text=True,
                          env=repository.place.environ(
                              COSIGN_PASSWORD="s3cret word", TMPDIR=str(tmp_path / "tmp"),
                              PATH=f"{tmp_path}:{os.environ['PATH']}"))
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
    texts = [done.stdout, done.stderr, (tmp_path / "said").read_text()]
    texts += [file.read_text() for file in tmp_path.glob("seen-*/**/*") if file.is_file()]
    assert len(texts) > 10 and not any("s3cret" in one or PASSWORD in one for one in texts)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("step", ["public-key", "verify-attestation", "attest", "sign"])
def test_a_run_that_is_told_to_stop_leaves_no_program_and_no_file_and_the_next_finishes(
        asked, tmp_path, number, step):
    repository, digest, command = asked
    script = tmp_path / "cosign"
    script.write_text(f'#!/bin/sh\nif [ "$1" = {step} ]; then echo $$ >{tmp_path}/pid; '
                      'exec sleep 60; fi\nexec /usr/bin/cosign "$@"\n')
    script.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=repository.place.environ(
                                   TMPDIR=str(tmp_path / "tmp"),
                                   PATH=f"{tmp_path}:{os.environ['PATH']}"))
    for _ in range(300):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "interrupted" in err and repository.tags() == {}
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    done = subprocess.run(command, env=repository.place.environ(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(repository.tags().values()) == {digest}


def test_a_trial_leaves_the_registry_as_it_was(asked):
    repository, _, command = asked
    storage = repository.place.storage / "docker/registry/v2/repositories" / repository.name

    def there() -> list[Path]:
        return sorted(storage.rglob("*"))

    before = there()
    done = subprocess.run([*command, "--dry-run"], env=repository.place.environ(HOME="/proc"),
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert there() == before


# -- somebody who may write to the registry, and not sign


def test_a_tag_that_was_moved_to_another_signed_image_is_not_verified(asked):
    repository, digest, command = asked
    assert subprocess.run(command, env=repository.place.environ(),
                          capture_output=True).returncode == 0
    body = repository.ask("GET", f"manifests/{digest}", headers={
        "Accept": "application/vnd.oci.image.manifest.v1+json"}).content
    for tag in ("torch2.10-cuda13.0", f"torch2.11-cuda13.0-20260203-{'0' * 8}", "mine"):
        done = repository.ask("PUT", f"manifests/{tag}", data=body, headers={
            "Content-Type": "application/vnd.oci.image.manifest.v1+json"})
        assert done.status_code == 201
    for tag, code in {"torch2.10-cuda13.0": 1, f"torch2.11-cuda13.0-20260203-{'0' * 8}": 1,
                      "mine": 0}.items():
        done = repository.verify(f":{tag}")
        assert done.returncode == code, (tag, done.stdout, done.stderr)
        assert code == 0 or "somebody moved the tag" in done.stderr
    assert "Apex" in done.stdout and "torch 2.11.0+cu130 · CUDA 13.0" in done.stdout


def test_statements_about_another_build_or_image_are_not_taken_though_they_are_signed(asked):
    repository, digest, command = asked
    assert subprocess.run(command, env=repository.place.environ(),
                          capture_output=True).returncode == 0
    file = repository.place.home / "other.json"
    for kind, said, words in (
            ("https://cyclonedx.org/bom", {"metadata": {"component": {"version": "sha256:0"}}},
             "SBOM is that of another image"),
            ("https://slsa.dev/provenance/v1", {"buildDefinition": {"externalParameters": {}}},
             "does not agree with the build record")):
        file.write_text(json.dumps(said))
        done = repository.cosign(
            "attest", "--key", str(repository.place.key), "--tlog-upload=false", "--yes", "--type",
            kind, "--predicate", str(file), f"{repository.path}@{digest}")
        assert done.returncode == 0, done.stderr
        done = repository.verify(f"@{digest}")
        assert done.returncode == 1 and words in done.stderr, done.stderr


def forged(repository: Repository, digest: str, report: dict) -> dict:
    """A layer of attestations with this report, which nobody signed."""
    import base64

    statement = {"_type": "https://in-toto.io/Statement/v0.1",
                 "predicateType": "urn:apexlab:verify:1", "predicate": report,
                 "subject": [{"name": "x", "digest": {"sha256": digest.removeprefix("sha256:")}}]}
    body = base64.b64encode(json.dumps(statement).encode()).decode()
    word = base64.b64encode(b"x" * 70).decode()
    return repository.blob(json.dumps({
        "payloadType": "application/vnd.in-toto+json", "payload": body,
        "signatures": [{"keyid": "", "sig": word}]}).encode())


@pytest.mark.parametrize("first", [True, False])
def test_a_statement_that_nobody_signed_beside_a_signed_one_says_nothing(asked, first):
    repository, digest, command = asked
    assert subprocess.run(command, env=repository.place.environ(),
                          capture_output=True).returncode == 0
    tag = f"{digest.replace(':', '-')}.att"
    found = repository.ask("GET", f"manifests/{tag}", headers={
        "Accept": "application/vnd.oci.image.manifest.v1+json"}).json()
    report = {**report_of(digest, repository.record), "verdict": "broken", "exit_code": 1}
    layer = {**found["layers"][0], **forged(repository, digest, report)}
    found["layers"] = [layer, *found["layers"]] if first else [*found["layers"], layer]
    repository.put(found, tag)
    done = repository.verify(f"@{digest}")
    assert done.returncode == 0 and "broken" not in done.stdout, done.stderr
