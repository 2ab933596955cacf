"""The steps of `make try-publish`: commands of the README, held against what they must do."""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from loopback_registry import LoopbackRegistry
from walk import StepError, Walk, must, say, shown

APEXLAB = Path(sys.executable).with_name("apexlab")
# The slim image for one architecture, which the tests of images build as well: where they ran, all
# of its layers are there.
CELL = ("--torch", "2.6", "--cuda", "12.4", "--base", "offline", "--archs", "9.0",
        "--apex-source", "tests/standin", "--target", "runtime")  # fmt: skip
LOST = "fused_layer_norm_cuda"
TAMPER = f"RUN rm /opt/venv/lib/python3*/site-packages/{LOST}.*"
PASSWORD = "for this trial"  # noqa: S105 - of a key that nobody trusts
# As the README names them.
TYPES = {"verify report": "urn:apexlab:verify:1", "SBOM": "https://cyclonedx.org/bom",
         "provenance": "https://slsa.dev/provenance/v1"}
# What the steps leave in the folder.
FILES = ("records", "site", "cosign.key", "cosign.pub", "load.json", "edited.json",
         "tampered.json", "published.json")  # fmt: skip


class Trial:
    """The repository that is published to, and the folder that is left."""

    def __init__(self, home: Path, registry: LoopbackRegistry, engine: str) -> None:
        self.home, self.registry = home, registry
        self.repository = f"{registry.host}/apexlab"
        # A login of its own: the person's stays as it is.
        self.walk = Walk({"DOCKER_HOST": engine, "DOCKER_CONFIG": str(registry.home / "docker"),
                          "SSL_CERT_FILE": str(registry.ca), "COSIGN_PASSWORD": PASSWORD,
                          "NO_PROXY": "127.0.0.1"})
        self.key, self.public = shown(home / "cosign.key"), shown(home / "cosign.pub")
        self.report = home / "load.json"

    def tags(self) -> dict[str, str]:
        """Every tag and its digest, as the registry keeps them; without cosign's own."""
        folder = self.registry.storage / "docker/registry/v2/repositories/apexlab/_manifests/tags"
        return {one.name: (one / "current/link").read_text() for one in folder.iterdir()
                if not one.name.startswith("sha256-")}

    def log_in(self) -> None:
        try:
            self.walk.run("docker", "login", self.registry.host, quiet=True)
        except StepError as error:
            raise StepError("The container engine does not reach this machine's loopback: it is in "
                            "a virtual machine, or rootless. Use one that runs right here.",
                            code=4) from error

    def build(self) -> str:
        """Build the cell and push it; its digest."""
        name = f"{self.repository}:unverified"
        self.walk.title("build one cell from the stand-in: the slim image, for one architecture")
        self.walk.run(APEXLAB, "image", *CELL, "--tag", name, plain=True)
        self.walk.title("push it under a throw-away tag (6 GB are packed on one core: minutes)")
        return self.push(name)

    def push(self, name: str) -> str:
        said = self.walk.run("docker", "push", name, quiet=True).rstrip()
        say(said.rpartition("\n")[2])
        return str(said.partition("digest: ")[2].split()[0])

    def verify(self, digest: str, report: Path, ok: int = 0) -> dict[str, Any]:
        """Let the image that is started by this digest judge itself; its report."""
        self.walk.run("docker", "run", "--rm", f"{self.repository}@{digest}", "verify", "--level",
                      "load", "--image-digest", digest, "--json", out=report, ok=ok)
        found: dict[str, Any] = json.loads(report.read_text())
        must(found["image"] == digest, f"it says {found['verdict']} of {digest[:15]}...")
        return found

    def publish(self, digest: str, *reports: Path, ok: int = 0, out: Path | None = None) -> None:
        given = [word for report in reports for word in ("--report", shown(report))]
        self.walk.run(APEXLAB, "publish", f"{self.repository}@{digest}", *given, "--key", self.key,
                      "--allow-stand-in", *(("--json",) if out else ()), ok=ok, out=out)

    def check(self, name: str, ok: int = 0) -> None:
        self.walk.run(APEXLAB, "publish", "verify", name, "--key", self.public, ok=ok)

    def refuse(self, digest: str, good: dict[str, Any]) -> str:
        """What must get no tag gets none; the digest of an image that lacks an extension."""
        self.walk.title("must not pass: an image that nobody signed")
        self.check(f"{self.repository}:unverified", ok=1)

        self.walk.title("must not pass: the report, edited to say that the kernels ran on a GPU")
        edited = self.home / "edited.json"
        edited.write_text(json.dumps({**good, "verdict": "proven", "level_asked": "run",
                                      "level_reached": "run"}, indent=2))
        self.publish(digest, edited, ok=1)

        self.walk.title(f"must not pass: an image that lost {LOST}")
        name = f"{self.repository}:tampered"
        self.walk.run("docker", "build", "--quiet", "--tag", name, "-", plain=True,
                      stdin=f"FROM {self.repository}:unverified\n{TAMPER}\n")
        tampered, bad = self.push(name), self.home / "tampered.json"
        self.verify(tampered, bad, ok=1)
        self.publish(tampered, self.report, bad, ok=1)
        must(self.tags() == {"unverified": digest, "tampered": tampered}, "no tag was given")
        return tampered

    def consume(self, name: str, digest: str) -> None:
        """As somebody else has it: the name, the public key, public programs."""
        self.walk.title("as a consumer: pull by tag, check with apexlab, check with cosign alone")
        said = self.walk.run("docker", "pull", name)
        must(f"Digest: {digest}" in said, "the tag names the digest that was verified")
        self.check(name)
        who = ("--key", self.public, "--private-infrastructure")
        self.walk.run("cosign", "verify", *who, name, quiet=True)
        for what, kind in TYPES.items():
            lines = self.walk.run("cosign", "verify-attestation", *who, "--type", kind, name,
                                  quiet=True)
            statement = json.loads(base64.b64decode(json.loads(lines)["payload"]))
            of = [f"sha256:{one['digest']['sha256']}" for one in statement["subject"]]
            must(of == [digest], f"one signed {what}, about this digest")

    def page(self, published: Path) -> None:
        self.walk.title("the page; it shows a stand-in only with --demo")
        cell = self.home / "records" / json.loads(published.read_text())["cell"]
        cell.mkdir(parents=True)
        shutil.copy(published, cell / "published.json")
        shutil.copy(self.report, cell / "verify.json")
        self.walk.run(APEXLAB, "site", "--out", shown(self.home / "site"), "--records",
                      shown(cell.parent), "--demo")


def chain(trial: Trial) -> None:
    walk = trial.walk
    say("Some of the commands below want these variables:")
    say("$ export " + " ".join(f"{key}={shlex.quote(one)}" for key, one in walk.environ.items()))
    walk.title(f"a registry at {trial.registry.host}, with TLS and a password")
    say(f"$ docker-registry serve {shown(trial.registry.home)}/registry.yml &")
    trial.log_in()
    digest = trial.build()
    walk.title("verify it in the container, started by digest")
    good = trial.verify(digest, trial.report)
    walk.title("make a pair of keys")
    walk.run("cosign", "generate-key-pair", "--output-key-prefix", trial.key.removesuffix(".key"))
    tampered = trial.refuse(digest, good)

    walk.title("publish: statements, signature, tags")
    published = trial.home / "published.json"
    trial.publish(digest, trial.report, out=published)
    given = {one["name"]: one["moves"] for one in json.loads(published.read_text())["tags"]}
    after = trial.tags()
    must({name: after.get(name) for name in given} == dict.fromkeys(given, digest),
         f"the digest has the tags {', '.join(given)}")
    moving = f"{trial.repository}:{next(name for name, moves in given.items() if moves)}"
    walk.title("publish a second time: nothing is left to do")
    trial.publish(digest, trial.report)
    must(trial.tags() == after, "no tag has moved")
    trial.consume(moving, digest)
    trial.page(published)

    walk.title("must not pass: somebody gives the tag to the other image")
    walk.run("docker", "tag", f"{trial.repository}:tampered", moving)
    must(trial.push(moving) == tampered, "the tag names the other image now")
    trial.check(moving, ok=1)
