"""Bad requests end in one paragraph with the right exit code; and verify's side of the bond."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from made_images import REPORTS

DIGEST = "sha256:" + "a" * 64
NAME = f"ghcr.io/me/apexlab@{DIGEST}"
REPORT = ("--report", str(REPORTS / "h200-proven.json"))


def apexlab(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([Path(sys.executable).with_name("apexlab"), *arguments], text=True,
                          capture_output=True, **options)


@pytest.mark.parametrize(("arguments", "words"), [
    ((), "Missing argument 'DIGEST'"),
    ((NAME,), "Missing option '--report'"),
    (("ghcr.io/me/apexlab:latest", *REPORT), "names no digest alone"),
    (("apexlab", *REPORT), "not the name of an image in a registry"),
    ((NAME, *REPORT, "--replace", "latest"), "not a digest"),
    ((NAME, *REPORT, "--level", "static"), "'static'"),
    (("verify", "ghcr.io/me/apexlab"), "Say whom you trust"),
    (("verify", NAME, "--repository", "me/x", "--identity", "y"), "with one of"),
])
def test_a_request_that_cannot_be_met_is_refused_with_2(arguments, words):
    done = apexlab("publish", *arguments)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("text", "words"), [
    ("", "is no report"), ("[]", "it is no object"), ("{", "is no report"), ('{"a": NaN}', "NaN"),
    ('{"schema": "apexlab.verify/2"}', "no report of `apexlab verify`"), ("[" * 99999, "no report"),
    ('{"verdict": "broken", "verdict": "ok"}', "'verdict' twice"), ('{"a": 1e999}', "is no report"),
    ('{"a": "\\ud800"}', "is no report"), ('{"a": 9007199254740993}', "others round"),
    ('{"a": ' * 500 + "1" + "}" * 500, "no report"), ("\ufeff{}", "is no report"),
])
def test_a_file_that_is_no_report_is_refused_before_anything_is_asked_of_a_registry(
        tmp_path, text, words):
    file = tmp_path / "report.json"
    file.write_text(text)
    done = apexlab("publish", NAME, "--report", str(file))
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr


def test_verify_writes_down_the_digest_and_the_time(tmp_path):
    done = apexlab("verify", "--level", "static", "--image-digest", DIGEST, "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["image"] == DIGEST and report["created"].endswith("+00:00")
    variable = {"APEXLAB_IMAGE_DIGEST": DIGEST, "PATH": "/usr/bin:/bin"}
    done = apexlab("verify", "--level", "static", "--json", cwd=tmp_path, env=variable)
    assert json.loads(done.stdout)["image"] == DIGEST
    done = apexlab("verify", "--level", "static", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["image"] is None


@pytest.mark.parametrize("arguments", [
    ("--image-digest", "latest"), ("--image-digest", DIGEST[:-1]),
    ("--image-digest", DIGEST, "--site", "."),
])
def test_a_digest_that_is_none_or_is_of_something_else_is_refused(tmp_path, arguments):
    done = apexlab("verify", "--level", "static", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and "--image-digest" in done.stderr
