"""How much faster is a rebuild after one source file changed than a cold build? Prints the ratio.

    python build/benchmarks/compiler_cache.py SOURCE FILE [--archs LIST]

Run it with a Python that can run `apexlab compile`. All builds go through the real driver, with a
compiler cache that starts empty. After the first one, FILE (relative to SOURCE) gets a new line of
code, so that it is compiled for real. A third build changes nothing: it is what a rebuild costs
at least. Goal: at least 10 times.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOAL = 10.0
_MAIN = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"


def build(source: Path, folder: Path, archs: str | None) -> float:
    """Seconds of one `apexlab compile`, the whole command."""
    options = ["--archs", archs] if archs else []
    command = [sys.executable, "-c", _MAIN, "compile", str(source), "--out", str(folder / "out")]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, *options], env={**os.environ, "CCACHE_DIR": str(folder / "ccache")},
        capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The build failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - start


def touch(file: Path) -> None:
    """Change what `file` means to a compiler, and nothing that it does."""
    with file.open("a") as out:
        out.write(f"\nstatic const int apexlab_touched = {int(time.time())};\n")


def measure(source: Path, archs: str | None, name: str) -> tuple[float, float, float]:
    """(cold, after one change, with nothing changed), in seconds."""
    with tempfile.TemporaryDirectory(prefix="apexlab-bench-") as text:
        folder = Path(text)
        tree = folder / "tree"
        shutil.copytree(source, tree)
        cold = build(tree, folder, archs)
        touch(tree / name)
        changed = build(tree, folder, archs)
        same = build(tree, folder, archs)
    return cold, changed, same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="a source tree of Apex's shape")
    parser.add_argument("file", help="the file that changes, relative to SOURCE")
    parser.add_argument("--archs", help="architectures; default: those of the cell")
    options = parser.parse_args()
    if not shutil.which("ccache"):
        sys.exit("There is no ccache on PATH, so there is nothing to measure.")
    if not (options.source / options.file).exists():
        sys.exit(f"{options.source} has no {options.file}. Name a file of it.")
    cold, changed, same = measure(options.source, options.archs, options.file)
    ratio = cold / changed
    print(f"cold                {cold:8.1f} s")
    print(f"one file changed    {changed:8.1f} s")
    print(f"nothing changed     {same:8.1f} s")
    print(f"ratio               {ratio:8.1f}   (goal: at least {GOAL:.0f})")
    sys.exit(0 if ratio >= GOAL else 1)


if __name__ == "__main__":
    main()
