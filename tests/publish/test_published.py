"""What `apexlab publish --json` prints is what `apexlab site` takes."""

from __future__ import annotations

import json

import pytest
from made_images import report_of

from apexlab.build.matrix import load
from apexlab.build.site import records

pytestmark = pytest.mark.docker
SLUG = "torch2.11-cuda13.0"


def test_the_document_of_a_promotion_makes_a_published_cell(repository, tmp_path):
    digest = repository.push()
    report = report_of(digest, repository.record)
    done = repository.publish(digest, report, options=("--json",))
    assert done.returncode == 0, done.stderr
    folder = tmp_path / SLUG
    folder.mkdir()
    (folder / "published.json").write_text(done.stdout)
    (folder / "verify.json").write_text(json.dumps(report))
    shown, left = records.read(tmp_path, load(), demo=False)
    said = shown[SLUG].published
    assert left == () and said["cell"] == SLUG and said["image"] == repository.path
    assert {tag["name"]: said["digest"] for tag in said["tags"]} == repository.tags()
    assert said["level"] == "run" and said["bytes"] > 0
    assert set(said["trust"].values()) == {None}  # a key signed, and no workflow


def test_a_dry_run_prints_no_document_that_could_be_taken_for_one(repository):
    digest = repository.push()
    done = repository.publish(digest, report_of(digest, repository.record),
                              options=("--json", "--dry-run"))
    assert done.returncode == 2 and done.stdout == "" and "--dry-run" in done.stderr
    assert repository.tags() == {}
