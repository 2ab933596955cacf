"""Prints the limit read and the peak of a real build under `docker run --memory` of 2, 6, 16 GiB.

Usage: memory_limits.py [SOURCE]. Needs the images of torch 2.6 and CUDA 12.4 on the offline bases
(`make image TORCH=2.6 CUDA=12.4 BASE=offline APEX_SOURCE=tests/standin`). The toolchain stage runs
as a container, with the torch of the runtime image in a volume; the volume and the image of the
toolchain are removed at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "apexlab:torch2.6-cuda12.4"
TOOLCHAIN = "apexlab-benchmark:toolchain"
VOLUME = "apexlab-benchmark-venv"
LIMITS = (2, 6, 16)
GIB = 1024**3


def run(*command: str, **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, text=True, **how)  # type: ignore[call-overload,no-any-return]


def make_toolchain(source: Path) -> None:
    """The stage of the Dockerfile as an image, from the very arguments of `apexlab image`."""
    asked = run(sys.executable, "-c", "from apexlab.verify.main import main; main()", "image",
                "--torch", "2.6", "--cuda", "12.4", "--base", "offline", "--apex-source",
                str(source), "--dry-run", stdout=subprocess.PIPE)
    definition = json.loads(asked.stdout)
    (target,) = definition["target"].values()
    target |= {"target": "toolchain", "tags": [TOOLCHAIN], "labels": {}}
    run("docker", "buildx", "bake", "-f", "-", input=json.dumps(definition))


def measure(gib: int, source: Path) -> str:
    """Build in a container that may use `gib` GiB; one line."""
    done = run("docker", "run", "--rm", f"--memory={gib}g", f"--memory-swap={gib}g",
               "-e", "CCACHE_DISABLE=1", "-v", f"{VOLUME}:/opt/venv", "-v", f"{source}:/src:ro",
               TOOLCHAIN, "apexlab", "compile", "/src", "--out", "/out", "--json",
               stdout=subprocess.PIPE)
    build = json.loads(done.stdout)["build"]
    read, peak = build["memory_limit"] / GIB, build["memory_peak"] / GIB
    return (f"{gib:2} GiB allowed, {read:5.1f} read; {build['jobs']} jobs x "
            f"{build['nvcc_threads']} threads; peak {peak:4.1f} GiB; {build['seconds']:.0f} s")


def main() -> None:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests" / "standin").resolve()
    make_toolchain(source)
    # An empty volume takes what the image has at that path.
    run("docker", "run", "--rm", "-v", f"{VOLUME}:/opt/venv", "--entrypoint", "true", IMAGE)
    try:
        for gib in LIMITS:
            print(measure(gib, source), flush=True)
    finally:
        subprocess.run(["docker", "volume", "rm", "-f", VOLUME], check=False)
        subprocess.run(["docker", "image", "rm", TOOLCHAIN], check=False)


if __name__ == "__main__":
    main()
