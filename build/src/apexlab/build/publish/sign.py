"""cosign: signs and attests a digest, and says what is there. The command lines are pure."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.build.errors import RegistryError
from apexlab.build.publish.registry import AGAIN
from apexlab.verify.errors import UsageError
from apexlab.verify.render import printable

GITHUB_ISSUER = "https://token.actions.githubusercontent.com"
SECONDS = 300
# How cosign says that it looked and found nothing that counts, as against not being able to look.
_NOTHING = ("no signatures found", "no matching signatures", "no matching attestations",
            "none of the attestations matched", "no attestations found", "no valid tlog entries")


@dataclass(frozen=True)
class Trust:
    """Whose signature counts: a public key, or an identity (a regular expression) and its issuer.

    A key's signatures are not in the public transparency log: its owner needs no network for it,
    and the names of a private registry stay private.
    """

    key: Path | None = None
    identity: str = ""
    issuer: str = GITHUB_ISSUER

    @property
    def options(self) -> tuple[str, ...]:
        """What cosign is given to verify."""
        if self.key is not None:
            return ("--key", str(self.key), "--private-infrastructure")
        return ("--certificate-identity-regexp", self.identity,
                "--certificate-oidc-issuer", self.issuer)


@dataclass(frozen=True)
class Attestation:
    """One signed statement that was found: its type, its subject's digests, what it says."""

    kind: str
    digests: tuple[str, ...]
    predicate: Any


class Cosign:
    """cosign for one registry. `key` is a private key's file, None for keyless signing."""

    def __init__(self, trust: Trust, key: Path | None = None, ca: Path | None = None) -> None:
        _look_for_cosign()
        self.trust, self._key = trust, key
        self._environ = dict(os.environ)
        self._scratch = tempfile.TemporaryDirectory(prefix="apexlab-cosign-")
        if ca is not None:
            self._environ["SSL_CERT_FILE"] = str(self._bundle(ca))

    def __enter__(self) -> Cosign:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def signed(self, image: str) -> bool:
        """Whether `image` (by digest) has a signature that counts."""
        return self._run(("verify", *self.trust.options, image)) is not None

    def attestations(self, image: str, kind: str) -> tuple[Attestation, ...]:
        """The signed statements of a type about `image` (by digest)."""
        text = self._run(("verify-attestation", *self.trust.options, "--type", kind, image))
        return tuple(map(_statement, (text or "").splitlines()))

    def sign(self, image: str, annotations: Mapping[str, str]) -> None:
        """Sign `image` (by digest), with these words under the same signature."""
        words = [part for key, value in sorted(annotations.items())
                 for part in ("--annotations", f"{key}={value}")]
        self._must(("sign", *self._signing(), *words, image))

    def attest(self, image: str, kind: str, predicate: Mapping[str, Any]) -> None:
        """Attach a signed statement to `image` (by digest)."""
        file = Path(self._scratch.name) / "predicate.json"
        file.write_text(json.dumps(predicate), encoding="utf-8")
        self._must(("attest", *self._signing(), "--type", kind, "--predicate", str(file), image))

    def _signing(self) -> tuple[str, ...]:
        if self._key is None:
            return ("--yes",)
        return ("--yes", "--key", str(self._key), "--tlog-upload=false")

    def _must(self, arguments: tuple[str, ...]) -> None:
        if self._run(arguments) is None:
            raise RegistryError(f"cosign {arguments[0]} found nothing to work on. {AGAIN}")

    def _run(self, arguments: tuple[str, ...]) -> str | None:
        """What `cosign ARGUMENTS` prints; None where it found nothing that counts."""
        try:
            done = subprocess.run(["cosign", *arguments], capture_output=True, text=True,
                                  errors="replace", stdin=subprocess.DEVNULL, timeout=SECONDS,
                                  env=self._environ, check=False)  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise RegistryError(f"cosign {arguments[0]} did not end in {SECONDS} s. "
                                f"{AGAIN}") from error
        if done.returncode == 0:
            return done.stdout
        words = _words(done.stderr)
        if arguments[0].startswith("verify") and any(one in words for one in _NOTHING):
            return None
        raise RegistryError(f"cosign {arguments[0]} failed: {words[-600:]} Is the key (and "
                            "COSIGN_PASSWORD) right, is there room in the registry?"
                            f"{_other_version()} {AGAIN}")

    def _bundle(self, ca: Path) -> Path:
        """`ca` and the system's own authorities: keyless signing talks to public services too."""
        own = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
        there = Path(own).read_text() if Path(own).exists() else ""
        file = Path(self._scratch.name) / "authorities.pem"
        file.write_text(f"{ca.read_text()}\n{there}")
        return file


def public_key(private: Path, folder: Path) -> Path:
    """The public half of a private key, in a file in `folder`."""
    _look_for_cosign()
    done = subprocess.run(["cosign", "public-key", "--key", str(private)], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)  # fmt: skip
    if done.returncode:
        why = (f"{_words(done.stderr)[:300]} Is it the private one, and its password in "
               "COSIGN_PASSWORD?" if "COSIGN_PASSWORD" in os.environ else
               "the variable COSIGN_PASSWORD has to be set to its password, or to nothing for a "
               "key without one.")
        raise UsageError(f"The key {private} cannot be used: {why} `cosign generate-key-pair` "
                         "makes a new one.")
    file = folder / "cosign.pub"
    file.write_text(done.stdout)
    return file


def _look_for_cosign() -> None:
    if shutil.which("cosign") is None:
        raise RegistryError("There is no cosign command here, and it makes and checks the "
                            "signatures. Install it (Debian 13 and later have the package "
                            "cosign), then run the same command again.")


def _words(said: str) -> str:
    """cosign's error, which it prints twice, as one line."""
    line = " ".join(said.split("error during command execution")[0].split())
    return printable(line).rstrip(".") + "."


def _other_version() -> str:
    """Words on a cosign that this was not tried with; "" where it says no version of its own."""
    done = subprocess.run(["cosign", "version"], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=60, check=False)  # fmt: skip
    found = re.search(r"GitVersion:\s*v?(\d+)\.[\w.-]+", done.stdout + done.stderr)
    if found is None or found[1] == "2":
        return ""
    return f" This cosign has version {found[1]}, and apexlab was tried with 2.5."


def own_identity(environ: Mapping[str, str]) -> str:
    """Who signs without a key here, as a regular expression: the workflows of this repository."""
    repository = environ.get("GITHUB_REPOSITORY")
    if not environ.get("ACTIONS_ID_TOKEN_REQUEST_URL") or not repository:
        raise UsageError("There is nothing to sign with: give --key FILE (`cosign "
                         "generate-key-pair` makes one). Without a key it works in a job of "
                         "GitHub Actions that has the permission id-token: write.")
    return identity_of(repository, environ.get("GITHUB_SERVER_URL", "https://github.com"))


def identity_of(repository: str, server: str = "https://github.com") -> str:
    """The regular expression for the workflows of a repository."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII):
        raise UsageError(f"{repository!r} is no repository: write it as OWNER/NAME.")
    place = f"{server}/{repository}".replace(".", r"\.")
    return rf"^{place}/\.github/workflows/"


def _statement(line: str) -> Attestation:
    """One line of `cosign verify-attestation`: an envelope with an in-toto statement."""
    statement = json.loads(base64.b64decode(json.loads(line)["payload"]))
    digests = tuple(f"sha256:{one.get('digest', {}).get('sha256', '')}"
                    for one in statement.get("subject", ()))
    return Attestation(str(statement.get("predicateType")), digests, statement.get("predicate"))
