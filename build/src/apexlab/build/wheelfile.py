"""The wheel as a folder: unpack, strip, add the record, pack again.

The `wheel` tool does the unpacking and packing, since it also writes RECORD with the new hashes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from apexlab.build.errors import CompileError

RECORD_NAME = "apexlab-record.json"


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack into `folder`; the one folder inside that holds the wheel's files."""
    _wheel("unpack", str(wheel), "--dest", str(folder))
    return next(path for path in folder.iterdir() if path.is_dir())


def modules(root: Path) -> list[Path]:
    """All shared libraries in an unpacked wheel, sorted."""
    return sorted(path for path in root.rglob("*.so") if path.is_file())


def strip(paths: list[Path]) -> None:
    """Remove the debug sections; symbols that the loader and verify need stay.

    A file that strip cannot read is left alone: whether it is broken is the gate's to say.
    """
    program = shutil.which("strip")
    if program is None:
        return
    for path in paths:
        subprocess.run([program, "--strip-debug", str(path)], capture_output=True, check=False)


def dist_info(root: Path) -> Path:
    """The .dist-info folder of an unpacked wheel."""
    return next(root.glob("*.dist-info"))


def pack(root: Path, folder: Path) -> Path:
    """Pack the folder into a wheel in the new folder `folder`; its path."""
    folder.mkdir(parents=True)
    _wheel("pack", str(root), "--dest-dir", str(folder))
    return next(folder.glob("*.whl"))


def sha256(path: Path) -> str:
    """sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _wheel(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wheel", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(
            f"The wheel could not be {arguments[0]}ed: {done.stderr.strip()[-500:]}. Look at the "
            "disk's free space; if there is enough, this is a fault of the source's packaging.")
