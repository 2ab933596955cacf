"""The last step of the chain, on one machine: an image gets its tags only because it was verified,
and somebody else can check that.

Starts a registry on loopback, builds one cell from the stand-in, pushes it, verifies it by digest,
publishes it, checks it as a consumer, and shows that what must not get a tag gets none. Each
command is printed. Reports, keys and the page stay in one folder; the registry and its gigabytes
go.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import loopback_registry
from loopback_registry import LoopbackRegistry
from publish_trial import APEXLAB, FILES, Trial, chain
from walk import ROOT, StepError, say, shown

NEEDED_GB = 4  # of the registry; the image has 3.1 GB there
# Programs, and how to get them.
NEEDED = {
    "docker": "Docker Engine with buildx 0.13 or later",
    "docker-registry": "the registry (Debian, Ubuntu: apt-get install docker-registry; its service "
                       "need not run)",
    "openssl": "openssl (apt-get install openssl)",
    "cosign": "cosign (Debian 13 and later: apt-get install cosign)",
}


def check_host(home: Path) -> str:
    """Say at once what is missing; the address of the engine. Raises StepError."""
    if lacking := [way for name, way in NEEDED.items() if shutil.which(name) is None]:
        raise StepError(f"This machine lacks {'; '.join(lacking)}. On Debian 12 `.ci/install`, as "
                        "root, installs all that is needed.", code=4)
    if not APEXLAB.exists():
        raise StepError("There is no apexlab beside this Python. `make try-publish` makes its "
                        "environment and starts this.", code=4)
    free = shutil.disk_usage(home).free / 1e9
    if free < NEEDED_GB:
        raise StepError(f"The registry needs {NEEDED_GB} GB in {home}, and {free:.1f} GB are free "
                        "there.", code=4)
    return engine()


def engine() -> str:
    """The engine's address. It has to be on this machine, to reach a registry on its loopback."""
    asked = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    found = subprocess.run(asked, capture_output=True, text=True)
    host = os.environ.get("DOCKER_HOST") or found.stdout.strip()
    answer = subprocess.run(["docker", "version"], capture_output=True, text=True)
    if answer.returncode:
        raise StepError(f"No container engine answers: {answer.stderr.strip()} Start it "
                        "(systemctl start docker), or choose another with `docker context use`.",
                        code=4)
    if not host.startswith("unix:"):
        raise StepError(f"The container engine is at {host}, where it cannot reach a registry on "
                        "this machine's loopback. Use an engine on this machine.", code=4)
    return host


@contextmanager
def registry_in(home: Path, address: str) -> Iterator[LoopbackRegistry]:
    """A registry, and its end on every way out: it, its gigabytes, and its names in the engine."""
    home.mkdir()
    registry = loopback_registry.start(home)
    try:
        yield registry
    finally:
        # Nothing interrupts this: it is what an interrupt asks for.
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)
        registry.stop()
        shutil.rmtree(registry.storage, ignore_errors=True)
        docker = ["docker", "--host", address, "image"]
        names = subprocess.run([*docker, "ls", "--filter", f"reference={registry.host}/apexlab",
                                "--format", "{{.Repository}}:{{.Tag}}"],
                               capture_output=True, text=True).stdout.split()  # fmt: skip
        for name in names:
            subprocess.run([*docker, "rm", name], capture_output=True)


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """The folder for this run alone, without what an earlier one left."""
    with (home / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StepError(f"Another run has the folder {home}. Wait for it.", code=4) from error
        for name in ("registry", *FILES):
            shutil.rmtree(home / name, ignore_errors=True)
            with suppress(FileNotFoundError, IsADirectoryError):
                (home / name).unlink()
        yield


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "results" / "try-publish")
    home = parser.parse_args().folder.resolve()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, _interrupt)
    start = time.monotonic()
    try:
        home.mkdir(parents=True, exist_ok=True)
        address = check_host(home)
        with only_one(home), registry_in(home / "registry", address) as registry:
            chain(Trial(home, registry, address))
    except (StepError, loopback_registry.RegistryFailedError, OSError) as error:
        print(f"\nmake try-publish: {error}", file=sys.stderr)
        return getattr(error, "code", 4)  # a full disk, too, is no verdict
    except KeyboardInterrupt:
        print("\nmake try-publish: interrupted; the registry has ended.", file=sys.stderr)
        return 130
    say(f"\nAll was as it must be, in {time.monotonic() - start:.0f} s: one image was verified, "
        "published and checked by its tag,\nand what must not pass did not. Reports, keys, the "
        f"registry's configuration and the page are in\n{shown(home)} (site/index.html)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
