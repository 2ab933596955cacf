"""Prints how long `apexlab inspect` takes for a large library against cuobjdump's listing.

    python verify/benchmarks/inspect_large.py CUOBJDUMP .../torch/lib/libtorch_cuda.so

cuobjdump is in the package nvidia-cuda-cuobjdump of PyPI and in NVIDIA's toolkits. The goal is 100
times faster, with the same answer, which is checked. The reading alone is given as well, since a
start of Python is most of the rest.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter

ROUNDS = 5
OURS = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"
READING = """
import sys, time
from pathlib import Path
from apexlab.verify import anatomy
start = time.perf_counter()
anatomy.read(Path(sys.argv[1]))
print(time.perf_counter() - start)
"""


def output(*command: str) -> tuple[str, float]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout, time.perf_counter() - start


def listing(cuobjdump: str, library: str) -> tuple[Counter[str], float]:
    """How many entries for each target cuobjdump lists, and its seconds for both lists."""
    machine, first = output(cuobjdump, "--list-elf", library)
    ptx, second = output(cuobjdump, "--list-ptx", library)
    found = re.findall(r"\.(sm_\w+)\.cubin", machine)
    found += [name.replace("sm", "compute") for name in re.findall(r"\.(sm_\w+)\.ptx", ptx)]
    return Counter(found), first + second


def ours(library: str) -> tuple[Counter[str], float]:
    text, seconds = output(sys.executable, "-c", OURS, "inspect", "--json", library)
    counted: Counter[str] = Counter()
    for one in json.loads(text)["files"][0]["code"]:
        counted[one["target"]] += one["entries"]
    return counted, seconds


def main(cuobjdump: str, library: str) -> None:
    rounds = [(listing(cuobjdump, library), ours(library),
               float(output(sys.executable, "-c", READING, library)[0])) for _ in range(ROUNDS)]
    same = all(theirs[0] == own[0] for theirs, own, _ in rounds)
    theirs, own, reading = (statistics.median(column) for column in zip(
        *((theirs[1], own[1], alone) for theirs, own, alone in rounds), strict=True))
    print(f"cuobjdump's listing {theirs:.2f} s, apexlab inspect {own:.3f} s: "
          f"{theirs / own:.0f} times faster, the goal is 100; the reading alone {reading:.3f} s: "
          f"{theirs / reading:.0f} times; the same answer: {'yes' if same else 'NO'} "
          f"(median of {ROUNDS} rounds)")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: inspect_large.py CUOBJDUMP LIBRARY")
    main(sys.argv[1], sys.argv[2])
