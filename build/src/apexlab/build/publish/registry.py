"""A registry, over its HTTP API: manifests and blobs, each held against its digest.

A tag is given by putting the very bytes of the manifest under it. Tools that "create" a tag may
wrap a single manifest in an index of their own, and then the tag is not what was verified.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util.retry import Retry

from apexlab.build.errors import RefusedError, RegistryError
from apexlab.build.publish.reference import Reference

MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MOST = 4 << 20  # bytes of a manifest, as the specification has it
SECONDS = (10, 60)  # to connect, and between two bytes
AGAIN = "Run the same command again: it goes on where it stopped."


@dataclass(frozen=True)
class Manifest:
    """The bytes as the registry has them; `digest` is computed and never taken from a header."""

    body: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.body).hexdigest()

    @property
    def content(self) -> dict[str, Any]:
        """What it says. Raises RefusedError where that is nothing."""
        try:
            content = json.loads(self.body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise RefusedError(f"The manifest {self.digest} is no JSON object. Push it again.")
        return content


class _Header(AuthBase):
    """One Authorization header, so that no .netrc takes its place."""

    def __init__(self, value: str = "") -> None:
        self.value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.value:
            request.headers["Authorization"] = self.value
        return request


class Registry:
    """The registry of `reference`; `ca` is a bundle of certificates instead of the system's. Who
    only reads says so: a public image is for everybody, and rights to write are not."""

    def __init__(self, reference: Reference, ca: Path | None = None, write: bool = False) -> None:
        self.reference = reference
        self._scope = f"repository:{reference.repository}:{'pull,push' if write else 'pull'}"
        host = {"docker.io": "registry-1.docker.io"}.get(reference.registry, reference.registry)
        self._base = f"https://{host}/v2/{reference.repository}"
        self._session = requests.Session()
        own = ssl.get_default_verify_paths()
        # For each request: what is set for the session gives way to REQUESTS_CA_BUNDLE.
        self._how: dict[str, Any] = {
            "verify": str(ca) if ca else own.cafile or own.capath or True, "timeout": SECONDS}
        retry = Retry(total=3, backoff_factor=0.2, status_forcelist=(429, 502, 503, 504),
                      allowed_methods=("GET", "HEAD"), raise_on_status=False)
        self._session.mount("https://", HTTPAdapter(max_retries=retry))
        self._auth = _Header()

    def of(self, reference: Reference) -> Registry:
        """The same registry and repository, for another image there."""
        other = copy.copy(self)
        other.reference = reference
        return other

    def manifest(self, which: str) -> Manifest | None:
        """The manifest under a tag or a digest; None where there is none. Raises RefusedError where
        the registry has something else under that digest."""
        answer = self._ask("GET", f"/manifests/{which}", headers={"Accept": ", ".join(MANIFESTS)})
        if answer.status_code == 404:
            return None
        self._check(answer)
        body = answer.content
        if len(body) > MOST:
            raise RefusedError(f"The manifest {which} is larger than {MOST >> 20} MB.")
        found = Manifest(body, answer.headers.get("Content-Type", "").partition(";")[0])
        if which.startswith("sha256:") and found.digest != which:
            raise RefusedError(
                f"{self.reference.registry} hands out something else than {which} under that "
                f"digest ({found.digest}). Do not use that registry until it is known why.")
        return found

    def put(self, tag: str, manifest: Manifest) -> None:
        """Let `tag` name this manifest, byte for byte."""
        self._check(self._ask("PUT", f"/manifests/{tag}", data=manifest.body,
                              headers={"Content-Type": manifest.media_type}))

    @contextmanager
    def blob(self, digest: str) -> Iterator[IO[bytes]]:
        """The bytes of a blob, as they come. Whoever reads them checks the digest."""
        answer = self._ask("GET", f"/blobs/{digest}", stream=True)
        with closing(answer):
            self._check(answer)
            # As stored: a layer is a gzip file, which is not to be unpacked on the way.
            answer.raw.decode_content = False
            with self._in_words():
                yield cast("IO[bytes]", answer.raw)

    def _ask(self, method: str, path: str, **more: Any) -> requests.Response:
        with self._in_words():
            more = {**self._how, "auth": self._auth, **more}
            answer = self._session.request(method, self._base + path, **more)
            if answer.status_code == 401:  # at first, and when a token has run out
                self._log_in(answer.headers.get("WWW-Authenticate", ""))
                answer.close()
                answer = self._session.request(method, self._base + path, **more)
            return answer

    def _log_in(self, challenge: str) -> None:
        """Do what a 401 asks for: the password itself, or a token that it is changed for. What
        cannot be done is left: the answer to the next request says it best."""
        user = _credentials(self.reference.registry)
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic" and user is not None:
            word = base64.b64encode(":".join(user).encode()).decode()
            self._auth.value = f"Basic {word}"
        elif kind.lower() == "bearer":
            wanted = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            realm = wanted.pop("realm", "")
            if not realm.startswith("https://"):
                return
            answer = self._session.get(realm, params={**wanted, "scope": self._scope}, auth=user,
                                       **self._how)
            self._check(answer)
            token = answer.json()
            self._auth.value = f"Bearer {token.get('token') or token.get('access_token')}"

    def _check(self, answer: requests.Response) -> None:
        """Raises RegistryError unless the registry did what it was asked."""
        if answer.ok:
            return
        words = " ".join(answer.text[:500].split())
        if answer.status_code in (401, 403):
            todo = f"Log in with rights to write there: docker login {self.reference.registry}"
        elif answer.status_code >= 500:
            todo = f"Its disk may be full. Once it is well: {AGAIN[0].lower()}{AGAIN[1:]}"
        else:
            todo = "Is the name right, and was all of the image pushed?"
        raise RegistryError(f"{self.reference.registry} refuses {answer.request.method} "
                            f"{answer.request.path_url} ({answer.status_code}: {words}). {todo}")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        from urllib3.exceptions import HTTPError

        try:
            yield
        except requests.exceptions.SSLError as error:
            raise RegistryError(
                f"The certificate of {self.reference.registry} is not trusted here: {error}. "
                "Give --registry-ca the certificate of its authority.") from error
        except (requests.RequestException, HTTPError) as error:
            raise RegistryError(
                f"{self.reference.registry} does not answer, or broke off: {error}. "
                f"{AGAIN}") from error


def _credentials(registry: str) -> tuple[str, str] | None:
    """What `docker login` left for this registry, credential helpers included."""
    from docker import auth

    entry = auth.load_config().resolve_authconfig(registry) or {}
    name, password = entry.get("Username") or entry.get("username"), \
        entry.get("Password") or entry.get("password")
    return (name, password) if name and password else None
