"""The source tree: what is one, what names it, and what of it is copied."""

import json
import subprocess

import pytest

from apexlab.build.errors import SourceError
from apexlab.build.source import copy, inspect, tree_hash

COMMIT = "5c8860f1dc79f9edc3c1ba4050fe841207834564"


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for folder in ("apex", "csrc"):
        (root / folder).mkdir(parents=True)
    (root / "setup.py").write_text("setup()\n")
    (root / "apex/__init__.py").write_text("")
    (root / "csrc/a.cu").write_text("int a;\n")
    return root


def git(tree, *arguments):
    name = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", tree, *name, *arguments], check=True, capture_output=True,
                          text=True).stdout.strip()


def test_a_folder_that_is_not_apex(tmp_path):
    with pytest.raises(SourceError, match=r"no setup.py, apex, csrc"):
        inspect(tmp_path)


@pytest.mark.parametrize("missing", ["setup.py", "apex", "csrc"])
def test_the_missing_part_is_named(tree, missing):
    (tree / missing).rename(tree / "elsewhere")
    with pytest.raises(SourceError, match=f"it has no {missing}"):
        inspect(tree)


@pytest.mark.parametrize("name", ["setup.py", "apex", "csrc"])
def test_a_part_of_the_wrong_kind_is_missing(tree, name):
    (tree / name).rename(tree / "elsewhere")
    (tree / name).mkdir() if name == "setup.py" else (tree / name).write_text("")
    with pytest.raises(SourceError, match=f"it has no {name}"):
        inspect(tree)


def test_a_tree_without_git_is_known_by_its_files(tree):
    found = inspect(tree)
    assert (found.name, found.commit) == ("apex", None)
    assert found.identity == found.tree == tree_hash(tree)
    (tree / "csrc/a.cu").write_text("int b;\n")
    assert tree_hash(tree) != found.tree


def test_artefacts_do_not_change_the_identity(tree):
    before = tree_hash(tree)
    (tree / "build/lib").mkdir(parents=True)
    (tree / "build/lib/old.py").write_text("x")
    (tree / "amp_C.so").write_text("x")
    assert tree_hash(tree) == before


def test_a_ref_names_a_tree_without_git(tree):
    assert inspect(tree, COMMIT).commit == COMMIT


def test_a_checkouts_head_wins_over_a_ref(tree):
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "x")
    found = inspect(tree, COMMIT)
    assert found.commit == git(tree, "rev-parse", "HEAD")
    assert not found.dirty
    (tree / "csrc/a.cu").write_text("int c;\n")
    assert inspect(tree).dirty


def test_the_head_of_a_parent_says_nothing(tree):
    git(tree.parent, "init", "-q")
    git(tree.parent, "add", ".")
    git(tree.parent, "commit", "-qm", "x")
    assert inspect(tree).commit is None


@pytest.mark.parametrize("ref", ["main", "5c8860f1", COMMIT.upper(), ""])
def test_only_a_full_commit_is_a_ref(tree, ref):
    with pytest.raises(SourceError, match="full commit hash"):
        inspect(tree, ref)


def test_a_marked_tree_never_takes_a_commit_of_apex(tree):
    (tree / "apexlab-source.json").write_text(json.dumps({"source": "other"}))
    found = inspect(tree, COMMIT)
    assert (found.name, found.commit) == ("other", None)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"source": "apex"}', '{"source": "A B"}'])
def test_a_marker_that_says_nothing_is_refused(tree, text):
    (tree / "apexlab-source.json").write_text(text)
    with pytest.raises(SourceError, match=r"apexlab-source\.json"):
        inspect(tree)


def test_the_copy_leaves_old_artefacts_behind(tree, tmp_path):
    (tree / "build/lib").mkdir(parents=True)
    (tree / "build/lib/stale.so").write_text("x")
    (tree / "apex/amp_C.so").write_text("x")
    (tree / "apex/build").mkdir()
    (tree / "apex/build/kept.py").write_text("x")
    copy(inspect(tree), tmp_path / "copy")
    names = {path.relative_to(tmp_path / "copy").as_posix()
             for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert names == {"setup.py", "apex/__init__.py", "csrc/a.cu", "apex/build/kept.py"}
