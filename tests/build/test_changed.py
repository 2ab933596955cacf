"""`apexlab matrix --changed-since`: what a change concerns, from git's answer to the cells."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apexlab.build import changed, pins
from apexlab.build.changed import Before, concerned
from apexlab.build.matrix import DEFAULT_PATH, load
from apexlab.verify.arch import parse_archs
from apexlab.verify.errors import UsageError

NOW = load()
CELL = next(cell for cell in NOW.cells if (cell.torch, cell.cuda) == ("2.6.0", "12.4"))
DEVEL = f"docker.io/nvidia/cuda:{CELL.image}-devel-{CELL.os}"


def names(before: Before, digests=None, now=NOW, cells=None) -> list[str]:
    return [f"{cell.torch}-{cell.cuda}"
            for cell in concerned(before, now, digests or {}, cells or now.cells)]


def with_cell(**fields):
    cells = tuple(replace(cell, **fields) if cell == CELL else cell for cell in NOW.cells)
    return replace(NOW, cells=cells)


def same(*paths, matrix=NOW, digests=None) -> Before:
    return Before(matrix, digests or {}, paths)


@pytest.mark.parametrize("paths", [
    (), ("README.md",), ("tests/build/test_x.py",), ("docker/README.md",), ("Makefile",),
    ("build/src/apexlab/build/matrix.toml",), (".github/workflows/ci.yml",), ("verify/README.md",),
    ("mydocker/Dockerfile",), ("verify/deploy/kubernetes.yaml",), ("build/benchmarks/x.py",),
])  # fmt: skip
def test_what_is_in_no_image_concerns_no_cell(paths):
    assert names(same(*paths)) == []


@pytest.mark.parametrize("fields", [
    {"image": "12.4.0"}, {"os": "ubuntu20.04"}, {"python": "3.9"}, {"ref": "a" * 40},
    {"index": "cu124"}, {"archs": parse_archs("9.0")},
])
def test_a_row_that_changed_concerns_its_cell_alone(fields):
    assert names(same(matrix=with_cell(**fields))) == ["2.6.0-12.4"]


@pytest.mark.parametrize("fields", [{"evidence": "built"}, {"source": "me"}, {"note": "x"}])
def test_what_is_only_said_of_a_cell_concerns_none(fields):
    assert names(same(matrix=with_cell(**fields))) == []


def test_a_new_cell_and_a_new_patch_are_changes_and_one_that_is_gone_is_none():
    less = replace(NOW, cells=tuple(cell for cell in NOW.cells if cell != CELL))
    assert names(same(matrix=less)) == ["2.6.0-12.4"]
    assert names(same(matrix=with_cell(torch="2.6.1"))) == ["2.6.0-12.4"]
    assert names(same(), now=less) == []


@pytest.mark.parametrize("table", ["wheels", "toolkits", "refs", "systems"])
def test_a_row_that_cells_stand_on_concerns_each_of_them(table):
    change = {"wheels": {"gcc_min": "8"}, "toolkits": {"driver_min": "1"}, "refs": {"date": "x"},
              "systems": {"glibc": "1"}}[table]
    user = {"wheels": NOW.wheel("2.6", "12.4"), "toolkits": NOW.toolkit("12.4"),
            "refs": NOW.ref(CELL.ref), "systems": NOW.system(CELL.os)}[table]
    rows = tuple(replace(row, **change) if row == user else row for row in getattr(NOW, table))
    found = names(same(matrix=replace(NOW, **{table: rows})))
    of = {"wheels": [CELL], "toolkits": [c for c in NOW.cells if c.cuda == "12.4"],
          "refs": [c for c in NOW.cells if c.ref == CELL.ref],
          "systems": [c for c in NOW.cells if c.os == CELL.os]}[table]
    assert found == [f"{cell.torch}-{cell.cuda}" for cell in of] and found


def test_a_base_image_that_moved_concerns_the_cells_on_it():
    old, new = {DEVEL: "sha256:" + "a" * 64}, {DEVEL: "sha256:" + "b" * 64}
    on_it = [f"{cell.torch}-{cell.cuda}" for cell in NOW.cells
             if (cell.image, cell.os) == (CELL.image, CELL.os)]
    assert names(same(digests=old), new) == on_it and len(on_it) > 1
    assert names(same(digests=old), old) == []


@pytest.mark.parametrize("path", [
    "docker/Dockerfile", "verify/src/apexlab/verify/check.py", "build/pyproject.toml",
    "bench/src/apexlab/bench/model/step.py", ".dockerignore", ".github/workflows/images.yml",
])
def test_what_all_are_made_from_concerns_the_newest_cell_of_each_commit(path):
    found = names(same(path))
    assert len(found) == len({cell.ref for cell in NOW.cells}) < len(NOW.cells)
    assert "2.15.0-13.2" in found
    # A changed row stays in beside them.
    assert set(names(same(path, matrix=with_cell(index="x")))) == {*found, "2.6.0-12.4"}


def test_a_matrix_that_cannot_be_compared_concerns_every_cell():
    assert len(names(Before(None, {}, ()))) == len(NOW.cells)


def test_only_cells_that_were_asked_for_are_named():
    assert names(Before(None, {}, ()), cells=(CELL,)) == ["2.6.0-12.4"]


# -- with a real git


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                          capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository with the matrix, the pins and a few files, all committed."""
    root = tmp_path / "checkout"
    package = root / "build" / "src" / "apexlab" / "build"
    package.mkdir(parents=True)
    for name in ("matrix.toml", "pins.toml"):
        shutil.copy(DEFAULT_PATH.with_name(name), package / name)
    (root / "docker").mkdir()
    (root / "docker" / "Dockerfile").write_text("FROM scratch\n")
    (root / "README.md").write_text("x\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def test_a_matrix_of_an_earlier_commit_is_compared_as_it_was(checkout):
    table = checkout / changed.TABLES[0]
    text = table.read_text()
    assert names(changed.since(checkout, "HEAD")) == []
    table.write_text(text.replace('index = "cu126", ref', 'index = "cu127", ref', 1))
    git(checkout, "commit", "--quiet", "--all", "--message", "second")
    table.write_text(text)
    assert names(changed.since(checkout, "HEAD~1")) == []
    assert names(changed.since(checkout, "HEAD")) == ["2.6.0-12.6"]


@pytest.mark.parametrize("how", ["committed", "staged", "changed", "new"])
def test_every_kind_of_change_is_seen(checkout, how):
    name = "docker/new file\né.sh" if how == "new" else "docker/Dockerfile"
    (checkout / name).write_text("FROM other\n")
    if how in ("committed", "staged"):
        git(checkout, "add", "--all")
    first = git(checkout, "rev-parse", "HEAD")
    if how == "committed":
        git(checkout, "commit", "--quiet", "--message", "second")
    assert changed.since(checkout, first).paths == (name,)


def test_what_the_other_branch_did_meanwhile_is_no_change_of_this_one(checkout):
    git(checkout, "branch", "work")
    (checkout / "docker" / "Dockerfile").write_text("FROM other\n")
    git(checkout, "commit", "--quiet", "--all", "--message", "on main")
    git(checkout, "switch", "--quiet", "work")
    (checkout / "README.md").write_text("y\n")
    assert changed.since(checkout, "main").paths == ("README.md",)


def test_a_file_that_was_moved_out_counts_where_it_was(checkout):
    git(checkout, "mv", "docker/Dockerfile", "Dockerfile")
    assert set(changed.since(checkout, "HEAD").paths) == {"docker/Dockerfile", "Dockerfile"}


@pytest.mark.parametrize("text", ["cell = [", "[other]\n", 'os = "x"\n'])
def test_an_old_matrix_of_another_format_is_not_compared(checkout, text):
    (checkout / changed.TABLES[0]).write_text(text)
    git(checkout, "commit", "--quiet", "--all", "--message", "another format")
    assert changed.since(checkout, "HEAD").matrix is None


@pytest.mark.parametrize("ref", ["", "no-such", "-x", "--all", "HEAD:README.md", "a b", "HEAD~5"])
def test_what_is_no_commit_is_said(checkout, ref):
    with pytest.raises(UsageError, match="is no commit of this checkout"):
        changed.since(checkout, ref)


def test_histories_that_have_nothing_in_common_are_said(checkout):
    git(checkout, "switch", "--quiet", "--orphan", "other")
    (checkout / "x").touch()
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "other")
    with pytest.raises(UsageError, match="no common commit"):
        changed.since(checkout, "main")


def test_a_folder_without_git_is_said(tmp_path):
    with pytest.raises(UsageError, match="no commit"):
        changed.since(tmp_path, "HEAD")


def apexlab(*words, **environ):
    return subprocess.run(
        [sys.executable, "-c", "from apexlab.verify.main import main; main()", *words],
        capture_output=True, text=True, env={**os.environ, **environ})


def test_the_command_prints_the_cells_and_says_why_on_stderr():
    done = apexlab("matrix", "--format", "github", "--changed-since", "HEAD")
    include = json.loads(done.stdout)["include"]
    assert done.returncode == 0 and len(include) < len(NOW.cells)
    assert done.stderr.startswith(f"{len(include)} of {len(NOW.cells)} cells since HEAD")


def test_without_git_the_command_says_what_it_needs(tmp_path):
    done = apexlab("matrix", "--changed-since", "HEAD", PATH=str(tmp_path))
    assert done.returncode == 4 and done.stdout == "" and "git does not run here" in done.stderr


def test_no_changed_cell_is_an_empty_matrix_and_no_error():
    before = Before(NOW, pins.load(), ())
    from apexlab.build import formats

    assert formats.github(concerned(before, NOW, pins.load(), NOW.cells)) == '{"include":[]}'
