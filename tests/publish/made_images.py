"""Small images, pushed straight through a registry's API, and reports that were made in them;
the registry itself, Debian's, with TLS and a password on loopback.

The verify report is a real one, of an H200 (tests/verify/reports): what a test changes in it is
what the test is about.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import loopback_registry
import requests
from loopback_registry import PASSWORD, USER, logged_in

from apexlab.build.image_labels import OCI, from_record
from apexlab.build.matrix import load
from apexlab.verify.record import IMAGE_PATH, parse_record

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "tests" / "verify" / "reports"
PROVEN = json.loads((REPORTS / "h200-proven.json").read_text())
FALLBACK = json.loads((REPORTS / "h200-fallback.json").read_text())
TORCH, CUDA = "2.11.0+cu130", "13.0"
CELL = next(cell for cell in load().cells if (cell.torch, cell.cuda) == ("2.11.0", "13.0"))
BORN, LATER = "2026-02-03T04:05:06+00:00", "2026-02-03T05:00:00+00:00"
DPKG = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u13

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""


def record(report=PROVEN, **more) -> dict:
    """The build record of an image in which this report could be made."""
    extensions = report["extensions"]
    given = {
        "schema": "apexlab.record/1", "source": "apex",
        "apex": {"commit": CELL.ref, "tree": None, "dirty": False,
                 "url": "https://github.com/NVIDIA/apex.git"},
        "torch": {"version": TORCH, "cuda": CUDA, "cxx11_abi": True},
        "toolkit": {"nvcc": "13.0.88"}, "python": {"tag": "cp310", "platform": "linux_x86_64"},
        "archs": [str(arch) for arch in CELL.archs], "profile": "core",
        "requested": [one["name"] for one in extensions],
        "built": [{"name": one["name"], "file": f"{one['name']}.so", "bytes": 1,
                   "sha256": one["sha256"], "targets": ["sm_90"], "ptx": []}
                  for one in extensions],
        "images": {"base": {"name": "docker.io/nvidia/cuda:13.0.2-base-ubuntu22.04",
                            "digest": "sha256:" + "5" * 64}},
        "wheel": {"name": "apex-0.1-cp310-cp310-linux_x86_64.whl", "sha256": "9" * 64},
        "created": BORN,
    }  # fmt: skip
    return {**given, **more}


def labels(record_: dict) -> dict[str, str]:
    read = parse_record(json.dumps(record_), "test")
    return {**from_record(read), f"{OCI}.title": "apexlab", f"{OCI}.revision": "0" * 40}


def report_of(digest: str, record_: dict, base=PROVEN, **more) -> dict:
    """The report as verify would have made it in that image."""
    made = copy.deepcopy(base)
    # verify reads the copy inside the wheel, which cannot hold the wheel's own hash.
    inside = {**record_, "wheel": {**record_["wheel"], "sha256": None}}
    made.update(record=inside, image=digest, created=LATER)
    made["environment"]["torch"] = TORCH
    return {**made, **more}


def at_load(report: dict) -> dict:
    """The same, as far as a machine without a GPU gets."""
    extensions = [{**one, "status": "loaded", "proofs": []} for one in report["extensions"]]
    environment = {**report["environment"], "devices": [], "driver": None, "instruments": []}
    return {**report, "verdict": "ok", "level_asked": "load", "level_reached": "load",
            "extensions": extensions, "environment": environment}


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(files: dict[str, str | bytes]) -> bytes:
    """A gzip'ed tar archive with these files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return gzip.compress(raw.getvalue(), mtime=0)


def layers_of(record_: dict | None, bench: bool = True) -> list[bytes]:
    """The layers of a small image: Debian's list, Python's metadata, the record."""
    site = "opt/venv/lib/python3.10/site-packages"
    python = {"torch": TORCH, "apexlab-verify": "0.1.0"}
    python |= {"apexlab-bench": "0.1.0"} if bench else {}
    found = {f"{site}/{name.replace('-', '_')}-{version}.dist-info/METADATA":
             f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText.\n"
             for name, version in python.items()}  # fmt: skip
    own = {str(IMAGE_PATH).lstrip("/"): json.dumps(record_)} if record_ is not None else {}
    return [layer({"var/lib/dpkg/status": DPKG}), layer({**found, **own})]


@dataclass
class Repository:
    """A repository in the registry. `record` is that of the image pushed last."""

    place: Place
    name: str
    record: dict = field(default_factory=dict)
    auth: object = (USER, PASSWORD)

    @property
    def path(self) -> str:
        return f"{self.place.host}/{self.name}"

    def ask(self, method: str, path: str, **more) -> requests.Response:
        own = f"https://{self.place.host}/v2/{self.name}/"
        url = path if path.startswith("https:") else own + path
        return requests.request(method, url, auth=self.auth, verify=str(self.place.ca),
                                timeout=20, **more)

    def blob(self, data: bytes) -> dict:
        """Upload a blob; its descriptor."""
        digest = digest_of(data)
        start = self.ask("POST", "blobs/uploads/")
        done = self.ask("PUT", start.headers["Location"], params={"digest": digest}, data=data)
        assert done.status_code == 201, done.text
        return {"digest": digest, "size": len(data)}

    def put(self, manifest: dict, which: str = "", kind: str = "manifest") -> str:
        """Upload a manifest by its digest, or under a tag; the digest."""
        body = json.dumps(manifest, indent=3).encode()
        media = f"application/vnd.oci.image.{kind}.v1+json"
        done = self.ask("PUT", f"manifests/{which or digest_of(body)}", data=body,
                        headers={"Content-Type": media})
        assert done.status_code == 201, done.text
        return digest_of(body)

    def push(self, record_: dict | None = None, *, created: str = BORN, bench: bool = True,
             tag: str = "", annotations: dict | None = None, **more) -> str:
        """Push an image with this record; its digest. `more` are labels that differ."""
        self.record = record() if record_ is None else record_
        return self.push_layers(layers_of(self.record, bench), {**labels(self.record), **more},
                                created, tag, annotations)

    def push_layers(self, layers: list[bytes], marks: dict, created: str = BORN, tag: str = "",
                    annotations: dict | None = None) -> str:
        diffs = [digest_of(gzip.decompress(one)) for one in layers]
        config = {"architecture": "amd64", "os": "linux", "created": created,
                  "config": {"Labels": marks}, "rootfs": {"type": "layers", "diff_ids": diffs}}
        base = "application/vnd.oci.image"
        manifest = {
            "schemaVersion": 2, "mediaType": f"{base}.manifest.v1+json",
            "config": {"mediaType": f"{base}.config.v1+json",
                       **self.blob(json.dumps(config).encode())},
            "layers": [{"mediaType": f"{base}.layer.v1.tar+gzip", **self.blob(one)}
                       for one in layers],
            **({"annotations": annotations} if annotations else {}),
        }  # fmt: skip
        return self.put(manifest, tag)

    def tags(self) -> dict[str, str]:
        """Every tag and the digest it has now, without those of cosign."""
        names = self.ask("GET", "tags/list").json().get("tags") or []
        return {name: self.digest(name) for name in names if not name.startswith("sha256-")}

    def digest(self, which: str) -> str:
        accept = ", ".join(f"application/vnd.oci.image.{kind}.v1+json"
                           for kind in ("manifest", "index"))
        answer = self.ask("GET", f"manifests/{which}", headers={"Accept": accept})
        assert answer.status_code == 200, answer.text
        return digest_of(answer.content)

    def publish(self, digest: str, *reports: dict, options: tuple[str, ...] = (), **environ):
        """Run `apexlab publish` on an image of this repository."""
        return self.start(digest, *reports, options=options, **environ)()

    def start(self, digest: str, *reports: dict, options: tuple[str, ...] = (), **environ):
        """The same, to wait for later: call what it returns."""
        files = []
        for number, one in enumerate(reports):
            file = self.place.home / f"{self.name.replace('/', '-')}-{digest[7:15]}-{number}.json"
            file.write_text(json.dumps(one))
            files += ["--report", str(file)]
        return self.place.start("publish", f"{self.path}@{digest}", *files, "--key",
                                str(self.place.key), *options, **environ)

    def verify(self, which: str, *options: str):
        """Run `apexlab publish verify` on a tag (`:tag`) or a digest (`@sha256:...`)."""
        return self.place.start("publish", "verify", self.path + which,
                                *(options or ("--key", str(self.place.public))))()

    def cosign(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The real cosign, as somebody without this project has it."""
        return subprocess.run(["cosign", *arguments], env=self.place.environ(), text=True,
                              capture_output=True, timeout=60)


@dataclass(frozen=True)
class Place:
    """A registry that runs, and what one needs to use it."""

    host: str
    home: Path
    ca: Path
    key: Path
    public: Path
    storage: Path

    def environ(self, **more: str) -> dict[str, str]:
        own = {"DOCKER_CONFIG": str(self.home / "docker"), "COSIGN_PASSWORD": "",
               "SSL_CERT_FILE": str(self.ca), "NO_COLOR": "1"}
        rest = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
        return {**rest, **own, **more}

    def start(self, *arguments: str, **environ: str):
        command = [Path(sys.executable).with_name("apexlab"), *arguments]
        process = subprocess.Popen(command, env=self.environ(**environ), text=True, cwd=self.home,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def ended() -> subprocess.CompletedProcess[str]:
            out, err = process.communicate(timeout=120)
            return subprocess.CompletedProcess(command, process.returncode, out, err)

        return ended

    def at(self, host: str) -> Place:
        """The same registry under another address, such as a proxy's."""
        logged_in(self.home, host)
        return Place(host, self.home, self.ca, self.key, self.public, self.storage)


def make_place(home: Path, inside: tuple[str, ...] = (), auth: dict | None = None,
               ) -> tuple[Place, subprocess.Popen]:
    """Start a registry that keeps all it has in `home`; `inside` is a command to run it by, `auth`
    how it asks for a login (default: the password itself)."""
    registry = loopback_registry.start(home, inside, auth)
    place = Place(registry.host, home, registry.ca, home / "cosign.key", home / "cosign.pub",
                  registry.storage)
    subprocess.run(["cosign", "generate-key-pair"], cwd=home, env=place.environ(), check=True,
                   capture_output=True)
    return place, registry.process
