"""The library that counts kernel launches, for LD_PRELOAD: ready-made in our images, else compiled.

Its source, interposer.c, says what it sees and what it cannot.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from importlib import resources
from pathlib import Path

from apexlab.verify import elf
from apexlab.verify.errors import UnreadableError
from apexlab.verify.library import Library

PREBUILT = Path("/opt/apexlab/liblaunches.so")
_SECONDS = 60.0  # a C compiler takes a fraction of one


def path(folder: Path) -> Path | None:
    """The library: the one of the image, else compiled into `folder` by the C compiler (CC is
    honoured). None where neither can be had, or where LD_PRELOAD could not name it."""
    found = PREBUILT if is_usable(PREBUILT) else _compiled(folder)
    # The loader takes blanks and colons for the end of a name.
    return None if found is None or set(" \t\n:") & set(str(found)) else found


def is_usable(library: Path) -> bool:
    """Whether it is this library, and for this machine."""
    try:
        with elf.opened(library) as opened:
            if opened.machine != platform.machine():
                return False
        return Library(library).defines(b"apexlab_launches")
    except UnreadableError:
        return False


def _compiled(folder: Path) -> Path | None:
    target = folder.resolve() / PREBUILT.name
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    with resources.as_file(resources.files("apexlab.verify") / "interposer.c") as source:
        command = [*compiler, "-shared", "-fPIC", "-O2", "-o", str(target), str(source), "-ldl",
                   "-lpthread"]
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
    return target if is_usable(target) else None
