"""Prints how long `apexlab verify --level load` takes against one `import torch`, alternating.

    python verify/benchmarks/load.py SITE

SITE holds an Apex; run it with a Python that has apexlab and the torch which that Apex was built
for. The goal is at most 1.5 times for 12 extensions.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

ROUNDS = 7
OURS = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"


def seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", *arguments], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main(site: str) -> None:
    look = [OURS, "verify", "--level", "load", "--site", site, "--arch", "9.0", "--json"]
    said = subprocess.run([sys.executable, "-c", *look], capture_output=True, check=False)
    report = json.loads(said.stdout)
    loaded = [one["name"] for one in report["extensions"] if one["status"] == "loaded"]
    pairs = [(seconds("import torch"), seconds(*look)) for _ in range(ROUNDS)]
    theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"import torch {theirs:.2f} s, verify --level load of {len(loaded)} extensions "
          f"{ours:.2f} s: {ratio:.2f} times, the goal is at most 1.5 (median of {ROUNDS} pairs)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: load.py SITE")
    main(sys.argv[1])
