"""The bases without a registry: which images, from which inputs, and whether they are up to date.

docker/offline/toolkits.toml says what they are made of; docker/offline/Dockerfile makes them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.build.bake import OFFLINE, csv_line
from apexlab.build.engine import Engine
from apexlab.build.errors import EngineError, NoCellError
from apexlab.build.image_build import bake

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

INPUTS = "dev.apexlab.inputs"
_RELEASES = {"bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable"}
_FOLDER = Path("docker", "offline")


@dataclass(frozen=True)
class Bases:
    """What the base images of one CUDA version are made from. `inputs` is a hash over all of it."""

    cuda: str
    version: str
    wheels: tuple[str, ...]
    deb: str
    deb_suite: str
    os: str
    suite: str
    image: str
    inputs: str

    def name(self, kind: str) -> str:
        """The tag of the image, `kind` being base or devel."""
        return f"{OFFLINE}:{self.cuda}-{kind}-{self.os}"

    @property
    def rootfs(self) -> str:
        """The tag of the root file system below both."""
        return f"{OFFLINE}:{self.os}"


def read(root: Path, cuda: str) -> Bases:
    """The bases for CUDA `cuda` ("12.4"). Raises NoCellError where there is no toolkit for it."""
    folder = root / _FOLDER
    data = tomllib.loads((folder / "toolkits.toml").read_text())
    toolkit, system = data["toolkit"].get(cuda), data["os"]
    if toolkit is None:
        known = " and ".join(data["toolkit"])
        raise NoCellError(
            f"There is no base without a registry for CUDA {cuda!r}: NVIDIA's compiler comes as a "
            f"package for {known}. Give --cuda with one of these.")
    digest = hashlib.sha256(repr((sorted(toolkit.items()), sorted(system.items()))).encode())
    for file in (folder / "Dockerfile", folder / "toolkit.sh", root / "docker" / "apt-install.sh"):
        digest.update(file.read_bytes())
    return Bases(
        cuda=cuda, version=toolkit["version"], wheels=tuple(toolkit["wheels"]),
        deb=toolkit.get("deb", ""), deb_suite=toolkit.get("suite", ""), os=system["name"],
        suite=system["suite"], image=system["image"], inputs=digest.hexdigest()[:16],
    )  # fmt: skip


def up_to_date(engine: Engine, bases: Bases) -> bool:
    """Whether both images are here and were made from the same inputs."""
    return all(
        (image := engine.find(bases.name(kind))) is not None
        and image.labels.get(INPUTS) == bases.inputs
        for kind in ("base", "devel")
    )


def ensure(
    engine: Engine, bases: Bases, root: Path, ca: Path | None, show: Callable[[str], None]
) -> bool:
    """Build both images unless they are up to date; whether anything was built.

    Raises EngineError or ImageBuildError, and then names neither.
    """
    if up_to_date(engine, bases):
        return False
    log = root / ".cache" / "logs" / f"base-images-{bases.cuda}.log"
    show("base: root file system")
    _rootfs(engine, bases, show)
    bake(definition(bases, root, ca), root, log, show)
    return True


def definition(bases: Bases, root: Path, ca: Path | None) -> dict[str, Any]:
    """The bake definition of both images."""
    args = {"ROOTFS": bases.rootfs, "CUDA": bases.version, "WHEELS": " ".join(bases.wheels),
            "DEB": bases.deb, "DEB_SUITE": bases.deb_suite}  # fmt: skip
    secret = {} if ca is None else {"secret": [csv_line(id="ca", src=str(ca))]}
    targets = {
        kind: {
            "context": str(root / "docker"), "dockerfile": "offline/Dockerfile", "target": kind,
            "args": args, "tags": [bases.name(kind)], "labels": {INPUTS: bases.inputs},
            "output": ["type=docker"], **secret,
        }
        for kind in ("base", "devel")
    }  # fmt: skip
    return {"group": {"default": {"targets": list(targets)}}, "target": targets}


def _rootfs(engine: Engine, bases: Bases, show: Callable[[str], None]) -> None:
    """Make sure that the root file system is here: from a registry, else by debootstrap."""
    from docker.errors import DockerException

    if engine.find(bases.rootfs) is not None:
        return
    try:
        engine.client.images.pull(bases.image).tag(bases.rootfs)
    except DockerException:
        show("no registry answers, so debootstrap makes it")
        _debootstrap(bases)


def _debootstrap(bases: Bases) -> None:
    if shutil.which("debootstrap") is None:
        raise EngineError(
            f"{bases.image} cannot be pulled, and there is no debootstrap to make the same from "
            "packages. Install debootstrap, or use a host that reaches a registry.")
    if os.geteuid() != 0:
        raise EngineError(
            f"{bases.image} cannot be pulled, and debootstrap, which makes the same from packages, "
            "works for root only. Call this as root, or use a host that reaches a registry.")
    mirror = next(mirrors(Path("/etc/apt"), bases.suite), None)
    if mirror is None:
        raise EngineError(
            f"{bases.image} cannot be pulled, and /etc/apt names no Debian mirror to make the same "
            "from packages. Use a Debian host, or one that reaches a registry.")
    with tempfile.TemporaryDirectory(prefix="apexlab-rootfs-", ignore_cleanup_errors=True) as name:
        folder = Path(name) / "rootfs"
        try:
            _run_debootstrap(bases, folder, mirror)
            _import(folder, bases.rootfs)
        finally:
            # Left mounted when debootstrap was interrupted; they must not be deleted through.
            for mount in ("proc", "sys"):
                subprocess.run(["umount", "--quiet", "--lazy", folder / mount], check=False,
                               capture_output=True)  # fmt: skip


def _run_debootstrap(bases: Bases, folder: Path, mirror: str) -> None:
    # https needs certificates in the image, and the check of signatures must not be optional.
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=ca-certificates", "--force-check-gpg",
         bases.suite, folder, mirror],
        capture_output=True, text=True, errors="replace", check=False)  # fmt: skip
    if done.returncode:
        words = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise EngineError(f"debootstrap could not make {bases.suite} from {mirror}:\n{words}")
    for folder_ in ("var/cache/apt", "var/lib/apt/lists"):
        for file in (folder / folder_).rglob("*"):
            if file.is_file() and file.name != "lock":
                file.unlink()


def _import(folder: Path, name: str) -> None:
    tar = subprocess.Popen(["tar", "-C", folder, "--create", "."], stdout=subprocess.PIPE)
    done = subprocess.run(["docker", "import", "-", name], stdin=tar.stdout, capture_output=True,
                          text=True, check=False)  # fmt: skip
    if tar.wait() or done.returncode:
        raise EngineError(f"The root file system could not be imported: {done.stderr.strip()}")


def mirrors(apt: Path, suite: str) -> Iterator[str]:
    """The Debian mirrors that apt's settings below `apt` name: those that have `suite` first.

    Any archive of Debian has all supported releases. The one for security updates and those of
    other vendors have none, and differ in the names of their releases or components.
    """
    found = [(uri, suites) for uri, suites, parts in _sources(apt)
             if "main" in parts and _RELEASES & set(suites)]  # fmt: skip
    yield from (uri for uri, suites in found if suite in suites)
    yield from (uri for uri, suites in found if suite not in suites)


def _sources(apt: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """(address, releases, components) of each entry, in both of apt's formats."""
    for file in sorted([apt / "sources.list", *apt.glob("sources.list.d/*.list")]):
        for line in file.read_text().splitlines() if file.exists() else ():
            if found := re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)", line):
                yield found[1], [found[2]], found[3].split()
    for file in sorted(apt.glob("sources.list.d/*.sources")):
        for entry in re.split(r"\n\s*\n", file.read_text()):
            fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*)$", entry, re.MULTILINE))
            for uri in fields.get("URIs", "").split():
                yield uri, fields.get("Suites", "").split(), fields.get("Components", "").split()
