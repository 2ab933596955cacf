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
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util.retry import Retry

from apexlab.build.errors import RefusedError, RegistryError
from apexlab.build.publish.reference import Reference
from apexlab.verify import strict
from apexlab.verify.render import printable

INDEXES = ("application/vnd.oci.image.index.v1+json",
           "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = (*INDEXES, "application/vnd.oci.image.manifest.v1+json",
             "application/vnd.docker.distribution.manifest.v2+json")
MOST = 4 << 20  # bytes of a manifest, as the specification has it
SECONDS = (10, 60)  # to connect, and between two bytes
LONGEST_WAIT = 30  # seconds before a request is repeated, whatever the registry asks for
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
            content = strict.loads(self.body)
            if not isinstance(content, dict):
                raise ValueError("it is no JSON object")
            # What is an index for one reader and an image for another was verified by one alone.
            indexes = {"manifests" in content, self.media_type in INDEXES,
                       content.get("mediaType", self.media_type) in INDEXES}
            if len(indexes) > 1 or ("manifests" in content and "layers" in content):
                raise ValueError("it calls itself an image and an index of images")
        except ValueError as error:
            raise RefusedError(f"The manifest {self.digest} cannot be used: {error}. "
                               "Push it again.") from error
        return content


class _Header(AuthBase):
    """One Authorization header, so that no .netrc takes its place."""

    def __init__(self, value: str = "") -> None:
        self.value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.value:
            request.headers["Authorization"] = self.value
        return request


class _Retry(Retry):
    """A registry may ask for patience (429), but not for a day's."""

    def get_retry_after(self, response: Any) -> float | None:
        return min(super().get_retry_after(response) or 0, LONGEST_WAIT)


class Registry:
    """The registry of `reference`; `ca` is a bundle of certificates instead of the system's. Who
    only reads says so: a public image is for everybody, and rights to write are not."""

    def __init__(self, reference: Reference, ca: Path | None = None, write: bool = False) -> None:
        self.reference = reference
        self._scope = f"repository:{reference.repository}:{'pull,push' if write else 'pull'}"
        host = {"docker.io": "registry-1.docker.io"}.get(reference.registry, reference.registry)
        self._host, self._base = host, f"https://{host}/v2/{reference.repository}"
        self._session = requests.Session()
        del self._session.adapters["http://"]  # no redirect leads out of TLS
        self._session.headers["Accept-Encoding"] = "identity"  # digests are of bytes as stored
        own = ssl.get_default_verify_paths()
        # For each request: what is set for the session gives way to REQUESTS_CA_BUNDLE.
        self._how: dict[str, Any] = {
            "verify": str(ca) if ca else own.cafile or own.capath or True, "timeout": SECONDS,
            "stream": True}  # nobody else says how much is read into memory
        retry = _Retry(total=3, backoff_factor=0.2, status_forcelist=(429, 502, 503, 504),
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
        with closing(answer):
            if answer.status_code == 404:
                return None
            self._check(answer)
            body = self._read(answer, MOST + 1)
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
        with closing(self._ask("PUT", f"/manifests/{tag}", data=manifest.body,
                               headers={"Content-Type": manifest.media_type})) as answer:
            self._check(answer)

    @contextmanager
    def blob(self, digest: str) -> Iterator[IO[bytes]]:
        """The bytes of a blob, as they come. Whoever reads them checks the digest."""
        with closing(self._ask("GET", f"/blobs/{digest}")) as answer:
            self._check(answer)
            # As stored: a layer is a gzip file, which is not to be unpacked on the way.
            answer.raw.decode_content = False
            with self._in_words():
                yield cast("IO[bytes]", answer.raw)

    def _ask(self, method: str, path: str, **more: Any) -> requests.Response:
        with self._in_words():
            more = {**self._how, "auth": self._auth, **more}
            answer = self._session.request(method, self._base + path, **more)
            # At first, and when a token has run out. Where a redirect led gets no password.
            if answer.status_code == 401 and urlsplit(answer.url).netloc == self._host:
                answer.close()
                self._log_in(answer.headers.get("WWW-Authenticate", ""))
                answer = self._session.request(method, self._base + path, **more)
            return answer

    def _log_in(self, challenge: str) -> None:
        """Do what a 401 asks for: the password itself, or a token that it is changed for. What
        cannot be done is left: the answer to the next request says it best."""
        password = _password(self.reference.registry)
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            self._auth.value = password
        elif kind.lower() == "bearer":
            wanted = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            realm = wanted.pop("realm", "")
            if not realm.startswith("https://"):
                return
            with closing(self._session.get(realm, params={**wanted, "scope": self._scope},
                                           auth=_Header(password), **self._how)) as answer:
                self._check(answer)
                self._auth.value = f"Bearer {_token(self._read(answer, MOST))}"

    def _read(self, answer: requests.Response, most: int) -> bytes:
        """The beginning of what it says."""
        with self._in_words():
            return cast("bytes", answer.raw.read(most, decode_content=False))

    def _check(self, answer: requests.Response) -> None:
        """Raises RegistryError unless the registry did what it was asked."""
        if answer.ok:
            return
        said = self._read(answer, 2000).decode(errors="replace")
        words = printable(" ".join(said[:500].split()))
        if answer.status_code in (401, 403):
            todo = f"Log in with rights to write there: docker login {self.reference.registry}"
        elif answer.status_code == 429:
            todo = f"It wants fewer requests: wait some minutes. {AGAIN}"
        elif answer.status_code >= 500:
            todo = f"Its disk may be full: see to that first. {AGAIN}"
        else:
            todo = "Is the name right, and was all of the image pushed?"
        raise RegistryError(f"{self.reference.registry} refuses {answer.request.method} "
                            f"{urlsplit(answer.url).path} ({answer.status_code}: {words}). {todo}")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        from urllib3.exceptions import HTTPError

        try:
            yield
        except requests.exceptions.SSLError as error:
            raise RegistryError(
                f"{self.reference.registry} has no TLS, or a certificate that is not trusted here: "
                f"{_words(error)}. Give --registry-ca the certificate of its authority; without "
                "TLS nothing is published.") from error
        except (requests.RequestException, HTTPError) as error:
            raise RegistryError(
                f"{self.reference.registry} does not answer, or broke off: {_words(error)}. "
                f"{AGAIN}") from error


def _words(error: Exception) -> str:
    """The error without what follows the ? of an address: where a registry sends us to, that is a
    password for some minutes."""
    return printable(re.sub(r"\?[^\s'\")]+", "?...", str(error)))


def _token(body: bytes) -> str:
    """The token in the answer of a service that hands them out; "" where there is none."""
    try:
        said = json.loads(body)
        token = str(said.get("token") or said.get("access_token") or "")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return token if re.fullmatch(r"[!-~]+", token) else ""


def _password(registry: str) -> str:
    """What `docker login` left for this registry, credential helpers included, as the value of a
    header; "" for nothing."""
    from docker import auth
    from docker.errors import DockerException

    try:
        entry = auth.load_config().resolve_authconfig(registry) or {}
    except DockerException as error:
        raise RegistryError(f"What `docker login` left for {registry} cannot be read: {error}. "
                            f"Log in again: docker login {registry}") from error
    name, password = (entry.get(key) or entry.get(key.lower()) for key in ("Username", "Password"))
    if not name or not password:
        return ""
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"
