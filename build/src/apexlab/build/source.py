"""The source tree: is it Apex-shaped, which commit is it, and a copy to build in.

setup.py writes into its own folder, so it is never run in the user's tree; and old artefacts in
that tree (build/lib, a stray .so) would travel into the wheel, so the copy leaves them out.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apexlab.build.errors import SourceError

MARKER = "apexlab-source.json"
_LEFT_OUT = {".git", "__pycache__", ".pytest_cache"}
_LEFT_OUT_AT_TOP = {"build", "dist"}
_LEFT_OUT_ENDINGS = (".so", ".pyc", ".o", ".egg-info")


@dataclass(frozen=True)
class Source:
    """A tree that can be built. `commit` is None where nobody knows it; `tree` is the sha256 over
    its files; `dirty` says that the checkout holds uncommitted changes."""

    path: Path
    name: str
    commit: str | None
    tree: str
    dirty: bool
    setup_text: str

    @property
    def identity(self) -> str:
        """What names this source in a version: the commit, else the tree."""
        return self.commit or self.tree


def inspect(path: Path, ref: str | None = None) -> Source:
    """The source at `path`; `ref` is the commit of a tree without git. Raises SourceError."""
    if ref is not None and not re.fullmatch(r"[0-9a-f]{40}", ref):
        raise SourceError(
            f"--ref {ref!r} is not a full commit hash. Give all 40 digits: branches and tags move, "
            "and a build must be repeatable.")
    wanted = {"setup.py": Path.is_file, "apex": Path.is_dir, "csrc": Path.is_dir}
    if missing := [name for name, is_there in wanted.items() if not is_there(path / name)]:
        raise SourceError(
            f"{path} is not an Apex source tree: it has no {', '.join(missing)}. Give the folder "
            "that holds setup.py, apex/ and csrc/ of a checkout of NVIDIA/apex.")
    name = _marker(path)
    head, dirty = _git(path)
    # A tree with a marker is not Apex, so a commit of Apex cannot be its identity.
    commit = head or (ref if name == "apex" else None)
    text = (path / "setup.py").read_text(errors="replace")
    return Source(path, name, commit, tree_hash(path), dirty, text)


def files(root: Path) -> Iterator[Path]:
    """The source files below `root`, sorted, without artefacts."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(left_out(part, depth == 0) for depth, part in enumerate(parts)):
            continue
        if path.is_file():
            yield path


def left_out(name: str, at_top: bool) -> bool:
    """Whether a file or folder of this name is an artefact, not source."""
    return (name in _LEFT_OUT or (at_top and name in _LEFT_OUT_AT_TOP)
            or name.endswith(_LEFT_OUT_ENDINGS))  # fmt: skip


def tree_hash(root: Path) -> str:
    """sha256 over names and contents of all source files, in sorted order."""
    digest = hashlib.sha256()
    for path in files(root):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def copy(source: Source, target: Path) -> None:
    """Copy the source into the new folder `target`, without artefacts."""

    def ignore(folder: str, names: list[str]) -> list[str]:
        at_top = Path(folder) == source.path
        return [name for name in names if left_out(name, at_top)]

    shutil.copytree(source.path, target, symlinks=True, ignore=ignore)


def _marker(path: Path) -> str:
    """The name in the tree's marker file, "apex" without one."""
    marker = path / MARKER
    if not marker.exists():
        return "apex"
    try:
        name = json.loads(marker.read_text())["source"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise SourceError(
            f"{marker} cannot be read ({error}). It must hold one line such as "
            '{"source": "name"}.') from error
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name == "apex":
        raise SourceError(f"{marker} names the source {name!r}: use a short word, not apex.")
    return name


def _git(path: Path) -> tuple[str | None, bool]:
    """HEAD and dirtiness, if `path` is the root of a checkout; a parent's HEAD says nothing."""
    if not (path / ".git").exists():
        return None, False
    head = _git_output(path, "rev-parse", "HEAD")
    if head is None:
        return None, False
    return head, bool(_git_output(path, "status", "--porcelain"))


def _git_output(path: Path, *arguments: str) -> str | None:
    # The tree may belong to another user, as in a container with a mounted checkout.
    command = ["git", "-c", "safe.directory=*", "-C", str(path), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
