"""Prints the size of the runtime image against torch's own packages and a single-stage build.

Needs `make image TORCH=2.6 CUDA=12.4 BASE=offline APEX_SOURCE=tests/standin TARGET=runtime`. The
single-stage build is what people write by hand, everything in the devel image; it is built for
real, takes 6 GB more for as long as it is measured, and is removed at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = "apexlab:torch2.6-cuda12.4-runtime"
SINGLE = "apexlab-benchmark:single-stage"
GOAL_MB = 600

# The files of what `pip install torch numpy` brings: what a runtime cannot do without.
TORCH_ONLY = """
import importlib.metadata as m, os, re
seen, todo = set(), ["torch", "numpy"]
while todo:
    name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
    try:
        found = m.distribution(name)
    except m.PackageNotFoundError:
        continue
    if name not in seen:
        seen.add(name)
        todo += [re.match(r"[\\w.-]+", r)[0] for r in found.requires or () if "extra ==" not in r]
files = {os.path.realpath(f.locate()) for n in seen for f in m.distribution(n).files or ()}
print(sum(os.path.getsize(f) for f in files if os.path.isfile(f)))
"""


def output(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def build_single_stage() -> None:
    """The runtime stage with `devel` in the place of `base`, from the arguments of the command."""
    asked = output(sys.executable, "-c", "from apexlab.verify.main import main; main()", "image",
                   "--torch", "2.6", "--cuda", "12.4", "--base", "offline", "--apex-source",
                   str(ROOT / "tests" / "standin"), "--target", "runtime", "--dry-run")
    definition = json.loads(asked)
    (target,) = definition["target"].values()
    target["args"]["BASE_IMAGE"] = target["args"]["DEVEL_IMAGE"]
    target |= {"tags": [SINGLE], "labels": {}}
    subprocess.run(["docker", "buildx", "bake", "-f", "-"], check=True, text=True,
                   input=json.dumps(definition))


def size_mb(image: str) -> float:
    return int(output("docker", "image", "inspect", "-f", "{{.Size}}", image)) / 1e6


def main() -> int:
    torch = int(output("docker", "run", "--rm", RUNTIME, "python", "-c", TORCH_ONLY)) / 1e6
    build_single_stage()
    try:
        runtime, single = size_mb(RUNTIME), size_mb(SINGLE)
    finally:
        subprocess.run(["docker", "image", "rm", SINGLE], check=False, stdout=subprocess.DEVNULL)
    print(f"torch's packages {torch:.0f} MB; runtime {runtime:.0f} MB, {runtime - torch:.0f} MB "
          f"more (the goal is at most {GOAL_MB}); single stage on devel {single:.0f} MB, "
          f"{single / runtime:.2f} times the runtime")
    return 0 if runtime - torch <= GOAL_MB else 1


if __name__ == "__main__":
    sys.exit(main())
