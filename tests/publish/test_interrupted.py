"""Whatever stops it half-way: nothing has a tag that is not complete, and a second run finishes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from made_images import LATER, Repository, at_load, make_place, record, report_of
from proxy import Proxy

pytestmark = pytest.mark.docker
MOVING = "torch2.11-cuda13.0"


def complete(repository: Repository) -> bool:
    """What has a tag passes every check of somebody who pulls it."""
    return all(repository.verify(f"@{digest}").returncode == 0
               for digest in set(repository.tags().values()))


@pytest.fixture(scope="module")
def whole(place):
    """(proxy, bytes): a way to the registry, and what one promotion sends over it."""
    proxy = Proxy(place.host)
    repository = Repository(place.at(proxy.host), "test/whole")
    digest = repository.push()
    before = proxy.passed
    done = repository.publish(digest, report_of(digest, repository.record))
    assert done.returncode == 0, done.stderr
    yield proxy, proxy.passed - before
    proxy.close()


@pytest.mark.parametrize("part", [0.03, 0.5, 0.97])
def test_a_lost_connection_leaves_no_half_published_tag_and_a_second_run_finishes(
        whole, place, part):
    proxy, total = whole
    there = Repository(place, f"test/lost{int(part * 100)}")
    digest = there.push()
    through = Repository(place.at(proxy.host), there.name)
    report = report_of(digest, there.record)
    proxy.left = int(part * total)
    done = through.publish(digest, report)
    proxy.left = None
    assert done.returncode == 4, (done.returncode, done.stderr)
    assert "Run the same command again" in done.stderr and "Traceback" not in done.stderr
    assert complete(there)
    assert through.publish(digest, report).returncode == 0
    assert set(there.tags().values()) == {digest} and len(there.tags()) == 2 and complete(there)


def test_a_run_that_is_killed_is_finished_by_the_next(repository):
    digest = repository.push()
    report = report_of(digest, repository.record)
    file = repository.place.home / "killed.json"
    file.write_text(json.dumps(report))
    process = subprocess.Popen(
        [Path(sys.executable).with_name("apexlab"), "publish", f"{repository.path}@{digest}",
         "--report", file, "--key", repository.place.key], env=repository.place.environ(),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert "attest" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert complete(repository)
    assert repository.publish(digest, report).returncode == 0
    assert set(repository.tags().values()) == {digest} and complete(repository)


def test_two_promotions_of_one_image_at_once_end_with_one_complete_image(repository):
    digest = repository.push()
    full = report_of(digest, repository.record)
    both = [repository.start(digest, full), repository.start(digest, at_load(full), full)]
    ended = [one() for one in both]
    assert {one.returncode for one in ended} <= {0, 4}, [one.stderr for one in ended]
    assert complete(repository)
    assert repository.publish(digest, full, at_load(full)).returncode == 0
    assert set(repository.tags().values()) == {digest} and complete(repository)


def test_two_images_of_one_cell_at_once_end_with_the_newer_one_after_a_second_run(repository):
    old = repository.push()
    old_report = report_of(old, repository.record)
    new = repository.push(record(created=LATER), created=LATER)
    new_report = report_of(new, repository.record, created="2026-02-03T06:00:00+00:00")
    ended = [one() for one in (repository.start(old, old_report),
                               repository.start(new, new_report))]
    assert {one.returncode for one in ended} <= {0, 1}, [one.stderr for one in ended]
    assert complete(repository)
    repository.publish(new, new_report)
    assert repository.tags()[MOVING] == new and complete(repository)
    assert repository.publish(old, old_report).returncode == 1  # it may not take it back


@pytest.fixture
def small(registry_tools, tmp_path):
    """A registry whose disk is small, and a function that makes it larger."""
    inside = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=2m none "$0"/storage && '
              'exec "$@"', str(tmp_path / "home"))
    if shutil.which("unshare") is None or os.geteuid() != 0 or subprocess.run(
            ["unshare", "--mount", "mount", "-t", "tmpfs", "none", tmp_path]).returncode:
        pytest.skip("docker: nothing may be mounted here, so there is no small disk")
    made, process = make_place(tmp_path / "home", inside)

    def enlarge() -> None:
        subprocess.run(["nsenter", "--mount", f"--target={process.pid}", "mount", "-o",
                        "remount,size=64m", made.storage], check=True)

    yield made, enlarge
    process.terminate()
    process.wait(10)


def test_a_full_registry_gives_no_tag_and_once_it_has_room_a_second_run_finishes(small):
    place, enlarge = small
    repository = Repository(place, "test/full")
    digest = repository.push()
    report = report_of(digest, repository.record)
    for size in (1 << 20, 1 << 18, 1 << 16, 1 << 14, 1 << 12):
        while _fits(repository, os.urandom(size)):
            pass
    done = repository.publish(digest, report)
    assert done.returncode == 4 and repository.tags() == {}, done.stderr
    assert "room" in done.stderr and "Traceback" not in done.stderr
    enlarge()
    done = repository.publish(digest, report)
    assert done.returncode == 0, done.stderr
    assert set(repository.tags().values()) == {digest} and complete(repository)


def _fits(repository: Repository, data: bytes) -> bool:
    start = repository.ask("POST", "blobs/uploads/")
    if start.status_code != 202:
        return False
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    return repository.ask("PUT", start.headers["Location"], params={"digest": digest},
                          data=data).status_code == 201
