"""How large an image is, what of it is torch's own packages, and what one stage would have cost.

    python build/benchmarks/image_size.py apexlab:torch2.6-cuda12.4-runtime

The image is its base and the layers above it, the largest of which is torch with its packages. A
build in a single stage would have put the same layers on the devel image.
"""

from __future__ import annotations

import subprocess
import sys

from apexlab.build import engine as engine_

LIMIT = 600 * 10**6


def layers(name: str) -> list[int]:
    """The bytes of each layer."""
    done = subprocess.run(["docker", "history", "--human=false", "--format", "{{.Size}}", name],
                          text=True, capture_output=True, check=True)  # fmt: skip
    return [int(line) for line in done.stdout.split()]


def main(name: str) -> int:
    engine = engine_.connect()
    sizes = layers(name)
    total, torch = sum(sizes), max(sizes)
    rest = total - torch
    images = engine.record(name).images
    base, devel = (str(images[kind]["name"]) for kind in ("base", "devel"))
    print(f"{name}: {total / 1e6:,.0f} MB")
    print(f"  torch and its packages  {torch / 1e6:8,.0f} MB")
    print(f"  all the rest            {rest / 1e6:8,.0f} MB, of {LIMIT / 1e6:,.0f} allowed")
    if engine.find(base) is None or engine.find(devel) is None:
        print(f"  in a single stage: not known, pull {base} and {devel} to compare")
    else:
        single = total - engine.size(base) + engine.size(devel)
        print(f"  in a single stage       {single / 1e6:8,.0f} MB, on {devel}")
        print(f"  saved                   {(single - total) / 1e6:8,.0f} MB")
    return 0 if rest <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
