"""A registry that lies, or leads elsewhere: no password leaves, no memory fills, nothing hangs."""

from __future__ import annotations

import gzip
import json
import time
from http.server import BaseHTTPRequestHandler

import pytest
from loopback_registry import PASSWORD, certificate, logged_in
from made_images import digest_of
from tls import serve

from apexlab.build.errors import RefusedError, RegistryError
from apexlab.build.publish import registry as registries
from apexlab.build.publish.reference import parse
from apexlab.build.publish.registry import Registry
from apexlab.build.publish.subject import look

pytestmark = pytest.mark.docker
INDEX, IMAGE = (f"application/vnd.oci.image.{kind}.v1+json" for kind in ("index", "manifest"))
BLOB = "sha256:" + "a" * 64


class Server:
    """Answers as it is told: `says` maps the end of a path to (code, headers, body) or to a list
    of them, one for each request. A body may be a generator. `asked` notes what came."""

    def __init__(self, home) -> None:
        self.says, self.asked, self.sent = {}, [], 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.asked.append((self.path, self.headers.get("Authorization")))
                code, headers, body = outer.answer(self.path)
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                if isinstance(body, bytes):
                    self.send_header("Content-Length", str(len(body)))
                    body = [body]
                else:
                    self.close_connection = True
                self.end_headers()
                try:
                    for part in body:
                        self.wfile.write(part)
                        outer.sent += len(part)
                except OSError:
                    self.close_connection = True

            do_PUT = do_GET

            def log_message(self, *_):
                pass

        self.server = serve(Handler, home)
        self.host = f"127.0.0.1:{self.server.server_port}"

    def answer(self, path):
        path = path.partition("?")[0]
        found = next((value for end, value in self.says.items() if path.endswith(end)),
                     (404, {}, b""))
        return found.pop(0) if isinstance(found, list) else found


@pytest.fixture
def servers(registry_tools, tmp_path, monkeypatch):
    """(the registry, another host, a Registry that speaks with the first and has a password)"""
    ca = certificate(tmp_path)
    here, there = Server(tmp_path), Server(tmp_path)
    logged_in(tmp_path, here.host)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    yield here, there, Registry(parse(f"{here.host}/me/x"), ca)
    for one in (here, there):
        one.server.shutdown()


def blob_of(registry, digest=BLOB) -> bytes:
    with registry.blob(digest) as raw:
        return raw.read(100)


def test_no_password_goes_to_where_a_redirect_led(servers):
    here, there, registry = servers
    challenge = {"WWW-Authenticate": f'Bearer realm="https://{there.host}/token",service="x"'}
    here.says = {BLOB: (307, {"Location": f"https://{there.host}/blob"}, b"")}
    there.says = {"/blob": (401, challenge, b""), "/token": (200, {}, b'{"token": "t"}')}
    with pytest.raises(RegistryError):
        blob_of(registry)
    assert [path for path, _ in there.asked] == ["/blob"]
    there.says["/blob"] = (401, {"WWW-Authenticate": "Basic realm=x"}, b"")
    with pytest.raises(RegistryError):
        blob_of(registry)
    assert {word for _, word in there.asked} == {None}


def test_what_is_stored_elsewhere_is_read_without_the_password(servers):
    here, there, registry = servers
    here.says = {BLOB: [(401, {"WWW-Authenticate": "Basic realm=x"}, b""),
                        (307, {"Location": f"https://{there.host}/blob"}, b"")]}
    there.says = {"/blob": (200, {}, b"content")}
    assert blob_of(registry) == b"content"
    assert here.asked[1][1].startswith("Basic ") and there.asked == [("/blob", None)]


def test_a_redirect_out_of_tls_is_not_followed(servers):
    here, there, registry = servers
    here.says = {"/manifests/v1": (307, {"Location": f"http://{there.host}/m"}, b"")}
    with pytest.raises(RegistryError):
        registry.manifest("v1")
    assert there.asked == []


def test_a_redirect_that_goes_round_ends(servers):
    here, _, registry = servers
    here.says = {BLOB: (307, {"Location": f"https://{here.host}/{BLOB}"}, b"")}
    with pytest.raises(RegistryError, match="redirects"):
        blob_of(registry)


def test_an_address_with_a_password_in_it_is_not_printed(servers):
    here, _, registry = servers
    here.says = {BLOB: (307, {"Location": "https://127.0.0.1:1/b?X-Signature=s3cret"}, b"")}
    with pytest.raises(RegistryError) as said:
        blob_of(registry)
    assert "s3cret" not in str(said.value) and PASSWORD not in str(said.value)


@pytest.mark.parametrize("token", [b"[]", b"{}", b"<html>", b'{"token": null}', b"[" * 99999,
                                   b'{"token": "a\\r\\nX: y"}'])
def test_a_service_that_hands_out_no_token_ends_in_words(servers, token):
    here, _, registry = servers
    here.says = {"/token": (200, {}, token), "/manifests/v1": (401, {
        "WWW-Authenticate": f'Bearer realm="https://{here.host}/token"'}, b"")}
    with pytest.raises(RegistryError, match=r"docker login|broke off"):
        registry.manifest("v1")


def test_a_registry_that_never_takes_the_password_is_asked_twice(servers):
    here, _, registry = servers
    here.says = {"/manifests/v1": (401, {"WWW-Authenticate": "Basic realm=x"}, b"no\x1b[2J")}
    with pytest.raises(RegistryError, match="docker login") as said:
        registry.manifest("v1")
    assert len(here.asked) == 2 and "\x1b" not in str(said.value)


def endless():
    while True:
        yield b" " * (1 << 20)


@pytest.mark.parametrize("code", [200, 404, 400])
def test_an_answer_without_an_end_fills_no_memory(servers, code):
    here, _, registry = servers
    here.says = {"/manifests/v1": (code, {}, endless())}
    if code == 404:
        assert registry.manifest("v1") is None
    else:
        with pytest.raises((RefusedError, RegistryError)):
            registry.manifest("v1")
    assert here.sent < 32 << 20


def test_a_manifest_that_grows_when_it_is_unpacked_is_not_unpacked(servers):
    here, _, registry = servers
    here.says = {"/manifests/v1": (200, {"Content-Encoding": "gzip"},
                                   gzip.compress(b'{"a": 1}' + b" " * (64 << 20)))}
    with pytest.raises(RefusedError, match="cannot be used"):
        assert registry.manifest("v1").content


@pytest.mark.parametrize(("code", "words"), [(429, "fewer requests"), (503, "see to that first")])
def test_a_registry_that_wants_a_day_of_patience_gets_less(servers, monkeypatch, code, words):
    here, _, registry = servers
    monkeypatch.setattr(registries, "LONGEST_WAIT", 0.1)
    here.says = {"/manifests/v1": (code, {"Retry-After": "86400"}, b"wait")}
    started = time.monotonic()
    with pytest.raises(RegistryError, match=words):
        registry.manifest("v1")
    assert time.monotonic() - started < 20 and len(here.asked) == 4


def test_another_manifest_under_a_digest_is_refused(servers):
    here, _, registry = servers
    here.says = {BLOB: (200, {"Docker-Content-Digest": BLOB, "Content-Type": IMAGE}, b"{}")}
    with pytest.raises(RefusedError, match="something else"):
        registry.manifest(BLOB)


def test_a_blob_that_breaks_off_is_a_lost_connection(servers):
    here, _, registry = servers
    here.says = {BLOB: (200, {"Content-Length": "99"}, [b"short"])}
    with registry.blob(BLOB) as raw:
        assert raw.read(100) == b"short"
    with pytest.raises(RegistryError, match="broke off"), registry.blob(BLOB) as raw:
        while raw.read(100):
            pass


def test_a_helper_for_passwords_that_is_absent_is_named(servers, tmp_path):
    here, _, registry = servers
    (tmp_path / "docker" / "config.json").write_text('{"credsStore": "absent"}')
    here.says = {"/manifests/v1": (401, {"WWW-Authenticate": "Basic realm=x"}, b"")}
    with pytest.raises(RegistryError, match="absent"):
        registry.manifest("v1")


# -- manifests that two readers read differently


CHILD = {"mediaType": IMAGE, "digest": BLOB, "size": 1}
LAYERS = {"config": {"digest": BLOB, "size": 1}, "layers": []}


@pytest.mark.parametrize(("media", "text"), [
    (IMAGE, json.dumps({"manifests": [CHILD], **LAYERS})),
    (IMAGE, json.dumps({"manifests": [CHILD]})),
    (INDEX, json.dumps(LAYERS)),
    (IMAGE, json.dumps({"mediaType": INDEX, **LAYERS})),
    (IMAGE, '{"layers": [], "config": {"digest": "x", "size": 1}, "layers": []}'),
    (IMAGE, '{"layers": [], "config": {"digest": "x", "size": 1}, "Layers": []}'),
], ids=["both", "index", "image", "media", "twice", "twice-in-go"])
def test_a_manifest_that_is_two_things_at_once_is_refused(servers, media, text):
    here, _, registry = servers
    digest = digest_of(text.encode())
    here.says = {digest: (200, {"Content-Type": media}, text.encode())}
    with pytest.raises(RefusedError, match=r"twice|calls itself"):
        look(registry.of(registry.reference.at(digest)))


def pushed(server, kind: str, document: dict) -> str:
    body = json.dumps(document).encode()
    server.says[digest_of(body)] = (200, {"Content-Type": kind}, body)
    return digest_of(body)


@pytest.mark.parametrize("manifest", [
    {"config": {"digest": "../../you/y/blobs/x", "size": 1}, "layers": []},
    {"config": {"digest": BLOB, "size": "many"}, "layers": []},
    {"config": {"digest": BLOB, "size": 1}, "layers": {"a": 1}},
    {"config": {"digest": BLOB, "size": 1}, "layers": [{"digest": 7}]},
    {"config": [], "layers": []}, {"config": {}},
    {"manifests": [{"digest": BLOB, "size": 1, "platform": []}]},
    {"manifests": [{"digest": BLOB, "size": 1, "platform": [1]}]},
    {"manifests": [{"digest": BLOB, "size": 1}]},  # which is not there
    {"manifests": 7}, {"manifests": [7]}, {"manifests": None},
], ids=str)  # fmt: skip
def test_a_manifest_of_another_shape_is_no_image(servers, manifest):
    here, _, registry = servers
    kind = INDEX if "manifests" in manifest else IMAGE
    with pytest.raises(RefusedError, match=r"is no image|an index of"):
        look(registry.of(registry.reference.at(pushed(here, kind, manifest))))
    assert all("/you/" not in path for path, _ in here.asked)


@pytest.mark.parametrize("config", [
    [], {"config": [1]}, {"config": {"Labels": ["x"]}}, {"config": {"Labels": {"x": 1}}},
], ids=str)
def test_a_configuration_of_another_shape_is_no_image(servers, config):
    here, _, registry = servers
    blob = pushed(here, "", config)
    manifest = {"config": {"digest": blob, "size": len(json.dumps(config))}, "layers": []}
    with pytest.raises(RefusedError, match="is no image"):
        look(registry.of(registry.reference.at(pushed(here, IMAGE, manifest))))
