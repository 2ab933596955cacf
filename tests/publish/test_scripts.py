"""The scripts of the workflow that publishes, with a real registry and a real cosign behind them:
only who signs is another, since there is no identity of GitHub here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_images import ROOT, at_load, report_of

pytestmark = pytest.mark.docker
SLUG = "torch2.11-cuda13.0"
# The workflow's identity becomes a key; all else is handed on word for word.
WRAPPER = """#!{python}
import os, sys
given = sys.argv[1:]
if given[0] == "publish":
    if "--repository" in given:
        at = given.index("--repository")
        given[at:at + 2] = ["--key", {public!r}]
    else:
        given += ["--key", {private!r}]
os.execv({apexlab!r}, ["apexlab", *given])
"""


@pytest.fixture
def script(repository, tmp_path):
    """Runs a script of .github/scripts as a step of a job would."""
    stubs, place = tmp_path / "stubs", repository.place
    stubs.mkdir()
    apexlab = str(Path(sys.executable).with_name("apexlab"))
    (stubs / "apexlab").write_text(WRAPPER.format(
        python=sys.executable, public=str(place.public), private=str(place.key), apexlab=apexlab))
    (stubs / "apexlab").chmod(0o755)

    def run(name: str):
        return subprocess.run(
            [ROOT / ".github" / "scripts" / name], cwd=tmp_path, text=True, capture_output=True,
            env=place.environ(PATH=f"{stubs}:{os.environ['PATH']}", REPOSITORY=repository.path,
                              GITHUB_REPOSITORY="some-one/apexlab"), timeout=300)

    return run


def test_what_is_promoted_is_on_the_page_of_the_same_run_and_of_every_later_one(
        repository, script, tmp_path):
    digest = repository.push()
    reports = tmp_path / "reports"
    reports.mkdir()
    (tmp_path / "digest").write_text(digest + "\n")
    full = report_of(digest, repository.record)
    (reports / "load.json").write_text(json.dumps(at_load(full)))
    (reports / "run.json").write_text(json.dumps(full))
    done = script("promote.sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"PUBLISHED   {repository.path}@{digest}\n")
    assert repository.tags()[SLUG] == digest
    for file in (*reports.iterdir(), tmp_path / "digest"):  # a later run has none of it
        file.unlink()
    done = script("site.sh")
    assert done.returncode == 0, done.stderr
    assert "site/index.html: 1 of 22 cells published\n" in done.stdout
    assert f"{repository.path}@{digest}" in (tmp_path / "site" / "index.html").read_text()


def test_a_promotion_without_a_report_gives_no_tag(repository, script, tmp_path):
    (tmp_path / "digest").write_text(repository.push() + "\n")
    assert script("promote.sh").returncode == 2
    assert repository.tags() == {}


def test_no_page_is_made_where_a_tag_does_not_pass(repository, script, tmp_path):
    repository.push(tag=SLUG)
    done = script("site.sh")
    assert done.returncode == 1 and f"- {SLUG}: " in done.stderr
    assert not (tmp_path / "site").exists() and not (tmp_path / "records").exists()
