"""The container engine: is it there, may we, is there room; and what it knows about images.

Reached through the Docker SDK. Builds do not go this way: the SDK has no BuildKit.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.build.errors import EngineError
from apexlab.build.image_failures import explain
from apexlab.verify.record import IMAGE_PATH, Record, parse_record

GB = 10**9
# Seen for torch 2.6.0 with CUDA 12.4: 6 GB of environment in the cache and again in the image,
# 6 GB of uv's cache, and the devel image: 2 GB offline, above 7 GB for NVIDIA's.
NEEDED = {"nvidia": 25 * GB, "offline": 18 * GB}
NEEDED_AGAIN = 4 * GB


@dataclass(frozen=True)
class Engine:
    """A live engine. `client` is the SDK's; `root` is its folder, None where that is elsewhere."""

    client: Any
    version: str
    root: Path | None

    def find(self, name: str) -> Any | None:
        """The local image of this name, or None."""
        from docker.errors import ImageNotFound

        try:
            return self.client.images.get(name)
        except ImageNotFound:
            return None

    def size(self, name: str) -> int:
        """The bytes of a local image, its base included."""
        image = self.find(name)
        return int(image.attrs["Size"]) if image is not None else 0

    def digest(self, name: str) -> str:
        """The digest by which `name` can be named again: a local image's, else the registry's.

        Raises EngineError where the registry does not have it or cannot be reached.
        """
        if image := self.find(name):
            remote = [entry.partition("@")[2] for entry in image.attrs.get("RepoDigests") or ()]
            return str(remote[0] if remote else image.id)
        return self.registry_digest(name)

    def registry_digest(self, name: str) -> str:
        """The digest that the registry has for `name` now. Raises EngineError."""
        from docker.errors import APIError

        try:
            return str(self.client.images.get_registry_data(name).id)
        except APIError as error:
            words = str(error.explanation or error)
            # The engine says 404 for a tag and 403 for a repository that is not there.
            if error.status_code == 404:
                words = f"manifest unknown: {words}"
            why = explain([words]) or "The registry refuses it."
            raise EngineError(f"The image {name} cannot be had ({words}). {why}") from error

    def record(self, name: str) -> Record:
        """The build record in an image, read without running anything of it."""
        container = self.client.containers.create(name)
        try:
            chunks, _ = container.get_archive(str(IMAGE_PATH))
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
                member = tar.extractfile(IMAGE_PATH.name)
                text = member.read().decode() if member else ""
        finally:
            container.remove()
        return parse_record(text, f"{name}:{IMAGE_PATH}")

    def room(self) -> int | None:
        """Free bytes on the engine's disk; None where it is not this machine's."""
        if self.root is None or not self.root.exists():
            return None
        return shutil.disk_usage(self.root).free


def connect() -> Engine:
    """The engine of the current docker context. Raises EngineError with what to do."""
    docker_cli()
    import docker
    from docker.errors import DockerException

    host = _host()
    try:
        client = docker.DockerClient(base_url=host)
        client.ping()
        info = client.info()
    except DockerException as error:
        raise EngineError(_no_answer(host, error)) from error
    local = host.startswith("unix://")
    root = Path(info["DockerRootDir"]) if local else None
    return Engine(client, str(info.get("ServerVersion", "")), root)


def docker_cli() -> None:
    """Raises EngineError without the docker command or its buildx."""
    if shutil.which("docker") is None:
        raise EngineError(
            "There is no docker command here, and images are built with it. Install Docker Engine "
            "with buildx, or use `make try`, which needs neither.")
    if _docker("buildx", "version") is None:
        raise EngineError(explain(["'buildx' is not a docker command"]) or "")


def check_room(free: int | None, base: str, built_before: bool) -> None:
    """Raises EngineError where the build would fill the disk; pure but for that."""
    needed = NEEDED_AGAIN if built_before else NEEDED.get(base, NEEDED["nvidia"])
    if free is not None and free < needed:
        raise EngineError(
            f"The build needs about {needed // GB} GB on the container engine's disk, and "
            f"{free / GB:.1f} GB are free. `docker system df` shows what takes the space; "
            "`docker buildx prune` empties the build cache.")


def _host() -> str:
    """Where the docker command finds the engine; the SDK does not know docker's contexts."""
    if host := os.environ.get("DOCKER_HOST"):
        return host
    found = _docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    if found is None:
        raise EngineError("docker cannot read its current context. `docker context ls` lists those "
                          "that there are; DOCKER_CONTEXT or `docker context use` chooses one.")
    return found or "unix:///var/run/docker.sock"


def _docker(*arguments: str) -> str | None:
    """What `docker ARGUMENTS` prints, None where it fails."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=60,
                              check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _no_answer(host: str, error: Exception) -> str:
    """Why the engine did not answer, from the SDK's error and what it was raised from."""
    words = [str(error)]
    cause: BaseException | None = error
    while cause is not None:
        words.append(repr(cause))
        cause = cause.__cause__ or cause.__context__
    text = " ".join(words)
    if "PermissionError" in text or "Permission denied" in text:
        return explain(["permission denied while trying to connect"]) or ""
    if "FileNotFoundError" in text or "ConnectionRefusedError" in text:
        todo = ("Start it: systemctl start docker" if host.startswith("unix:") else
                "Start it there, or let DOCKER_HOST or the docker context name another")
        return f"No container engine answers at {host}. {todo}."
    return f"The container engine at {host} does not answer as it should: {error}."
