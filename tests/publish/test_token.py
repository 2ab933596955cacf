"""A registry that changes the password for a token, as GitHub's does; the token runs out."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import subprocess
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from loopback_registry import PASSWORD, USER, certificate
from made_images import Repository, make_place, report_of
from tls import serve

pytestmark = pytest.mark.docker
WORD = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Tokens:
    """Hands out tokens that live for `seconds`; everybody may pull. Notes what it is asked for."""

    def __init__(self, home: Path) -> None:
        self.home, self.seconds, self.asked = home, 60, []
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
             "/CN=tokens", "-keyout", home / "tokens.key", "-out", home / "tokens.crt"],
            check=True, capture_output=True)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                scope = parse_qs(urlsplit(self.path).query).get("scope", [])
                known = self.headers.get("Authorization") == WORD
                outer.asked.append((known, *scope))
                body = json.dumps({"token": outer.token(scope, known)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = serve(Handler, home)
        self.auth = {"token": {
            "realm": f"https://127.0.0.1:{self.server.server_port}/token", "service": "test",
            "issuer": "tokens", "rootcertbundle": str(home / "tokens.crt")}}

    def token(self, scopes: list[str], known: bool) -> str:
        own = "".join((self.home / "tokens.crt").read_text().splitlines()[1:-1])
        now = int(time.time())
        access = []
        for scope in scopes:
            kind, _, rest = scope.partition(":")
            name, _, actions = rest.rpartition(":")
            access.append({"type": kind, "name": name,
                           "actions": actions.split(",") if known else ["pull"]})
        head = {"typ": "JWT", "alg": "RS256", "x5c": [own]}
        claims = {"iss": "tokens", "sub": USER, "aud": "test", "nbf": now - 90, "iat": now,
                  "exp": now - 60 + self.seconds, "jti": "x", "access": access}  # 60 s of leeway
        signed = ".".join(_text(json.dumps(one).encode()) for one in (head, claims))
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign",
                                    self.home / "tokens.key"], input=signed.encode(),
                                   check=True, capture_output=True).stdout
        return f"{signed}.{_text(signature)}"


class Bearer(requests.auth.AuthBase):
    """For the test's own requests."""

    def __init__(self, tokens: Tokens, name: str) -> None:
        self.tokens, self.scope = tokens, f"repository:{name}:pull,push"

    def __call__(self, request):
        request.headers["Authorization"] = f"Bearer {self.tokens.token([self.scope], True)}"
        return request


@pytest.fixture
def there(registry_tools, tmp_path):
    """(repository, tokens)"""
    certificate(tmp_path)
    tokens = Tokens(tmp_path)
    made, process = make_place(tmp_path / "home", auth=tokens.auth)
    both = tmp_path / "both.crt"
    both.write_text(made.ca.read_text() + (tmp_path / "tls.crt").read_text())
    place = dataclasses.replace(made, ca=both)
    yield Repository(place, "test/token", auth=Bearer(tokens, "test/token")), tokens
    process.terminate()
    process.wait(10)
    tokens.server.shutdown()


def test_a_token_is_asked_for_with_the_rights_that_are_needed_and_again_when_it_ran_out(
        there, tmp_path):
    repository, tokens = there
    digest = repository.push()
    tokens.seconds = 2  # and one promotion outlives it, with a slow signature
    slow = tmp_path / "cosign"
    slow.write_text('#!/bin/sh\n[ "$1" != sign ] || sleep 2\nexec /usr/bin/cosign "$@"\n')
    slow.chmod(0o755)
    done = repository.publish(digest, report_of(digest, repository.record),
                              PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert set(repository.tags().values()) == {digest}
    write = (True, "repository:test/token:pull,push")
    assert tokens.asked.count(write) >= 2
    tokens.asked.clear()
    done = repository.place.start("publish", "verify", f"{repository.path}@{digest}", "--key",
                                  str(repository.place.public), DOCKER_CONFIG="/nonexistent")()
    assert done.returncode == 0, done.stderr
    assert set(tokens.asked) == {(False, "repository:test/token:pull")}


def test_who_may_only_read_publishes_nothing_and_is_told_to_log_in(there):
    repository, _ = there
    digest = repository.push()
    done = repository.publish(digest, report_of(digest, repository.record),
                              DOCKER_CONFIG="/nonexistent")
    assert done.returncode == 4 and repository.tags() == {}, done.stderr
