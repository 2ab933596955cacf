"""The checkout that images are built from: where it is, and at which commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from apexlab.verify.errors import CannotError

_MARK = Path("docker") / "Dockerfile"


def find_root() -> Path:
    """The root of the checkout: the one that this package is installed from, else the one around
    the current folder. Raises CannotError without one."""
    here, current = Path(__file__).resolve(), Path.cwd()
    for folder in (*here.parents, current, *current.parents):
        if (folder / _MARK).is_file() and (folder / "verify").is_dir():
            return folder
    raise CannotError(
        "There is no docker/Dockerfile above this folder. Images are built from a checkout of "
        "apexlab: call this inside of it.")


def revision(root: Path) -> str:
    """The commit of the checkout, with -dirty where files were changed; "" without git."""
    try:
        done = subprocess.run(
            ["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
