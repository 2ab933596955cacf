"""Prints how long `apexlab verify --level static` takes for the Apex in a folder.

    python verify/benchmarks/static.py SITE

Run it with a Python that has apexlab; the torch that is judged against is the folder's own, else
this Python's. The goal is 0.4 s for 13 extensions against a CUDA build of torch, warm, and an
`import torch` beside it shows what not importing it saves.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

ROUNDS = 15
OURS = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"


def seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", *arguments], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def main(site: str) -> None:
    look = [OURS, "verify", "--level", "static", "--site", site, "--arch", "9.0", "--json"]
    said = subprocess.run([sys.executable, "-c", *look], capture_output=True, check=False)
    report = json.loads(said.stdout)
    found = [one["name"] for one in report["extensions"] if one["path"]]
    torch = report["environment"]["torch"]
    seconds("import torch")  # warms the files that only it reads
    pairs = [(seconds(*look), seconds("import torch")) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"verify --level static, {len(found)} extensions, torch {torch}: {ours:.2f} s, the goal "
          f"is 0.4; import torch {theirs:.2f} s: {ours / theirs:.2f} times "
          f"(median of {ROUNDS} pairs)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: static.py SITE")
    main(sys.argv[1])
