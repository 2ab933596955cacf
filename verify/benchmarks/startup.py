"""Prints how long `apexlab --help` takes against a hello-world click command, alternating."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

HELLO = "import click; click.command()(lambda: click.echo('hello'))()"
OURS = "import sys; from apexlab.verify.main import main; main(['--help'])"
ROUNDS = 21


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    pairs = [(seconds(HELLO), seconds(OURS)) for _ in range(ROUNDS)]
    hello, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"hello world {hello * 1000:.0f} ms, apexlab --help {ours * 1000:.0f} ms: "
          f"{ratio:.2f} times, the goal is at most 1.5 (median of {ROUNDS} pairs)")


if __name__ == "__main__":
    main()
