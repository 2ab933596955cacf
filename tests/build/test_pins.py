"""The digests of the base images: written by refresh, used by every build."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from apexlab.build import bake, image_request, pins, refresh
from apexlab.build.bake import BakeOptions
from apexlab.build.checkout import find_root
from apexlab.build.errors import EngineError, MatrixError, MatrixUnreadableError
from apexlab.build.matrix import load
from apexlab.build.resolve import plan_of, resolve

NOW = load()
NAME = "docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04"
A, B = ("sha256:" + letter * 64 for letter in "ab")


def test_the_shipped_file_is_what_refresh_would_write():
    assert pins.text(pins.load()) == pins.DEFAULT_PATH.read_text()


def test_every_pin_is_of_an_image_that_a_cell_starts_from():
    assert set(pins.load()) <= set(refresh.base_images(NOW))


def test_pins_come_back_as_they_were_written():
    digests = {NAME: A, 'odd "name"\n': B}
    assert pins.parse(pins.text(digests), "x") == digests


@pytest.mark.parametrize(("text", "error"), [
    ("[image", MatrixUnreadableError), ('image = "x"', MatrixError),
    ('[image]\n"a" = "latest"', MatrixError), ('[image]\n"a" = 1', MatrixError),
    (f'[image]\n"a" = "{A} --x"', MatrixError),
])
def test_what_is_no_pin_is_refused(text, error):
    with pytest.raises(error, match="Write them anew"):
        pins.parse(text, "x")


def test_a_file_that_is_absent_cannot_be_read(tmp_path):
    with pytest.raises(MatrixUnreadableError, match="cannot be read"):
        pins.load(tmp_path / "x.toml")


def test_a_build_starts_from_the_pinned_image_and_its_record_says_so():
    plan = resolve(NOW, "2.4", "12.4")
    [target] = bake.definition([plan], BakeOptions(digests={NAME: A}))["target"].values()
    assert target["args"]["BASE_IMAGE"] == f"{NAME}@{A}"
    assert target["args"]["DEVEL_IMAGE"].endswith("-devel-ubuntu22.04")
    assert json.loads(target["args"]["IMAGES"])["base"]["digest"] == A


def test_a_request_is_prepared_with_the_pins(monkeypatch):
    monkeypatch.setattr(pins, "load", lambda: {NAME: A})
    ask = image_request.Ask(torch="2.4", cuda="12.4")
    assert image_request.prepare(ask, NOW, find_root())[1].digests == {NAME: A}


def test_each_base_image_is_asked_for_once():
    images = refresh.base_images(NOW)
    assert len(images) == len(set(images))
    for cell in NOW.cells:
        assert set(bake.images(plan_of(NOW, cell), "nvidia").values()) <= set(images)


def test_one_image_that_cannot_be_had_writes_nothing():
    def digest(name):
        if "12.4.1" in name:
            raise EngineError("gone")
        return A

    with pytest.raises(EngineError):
        refresh.newest(refresh.base_images(NOW), digest)


def test_the_changes_are_a_table_of_what_changed():
    said = refresh.changes({"same": A, "moved": A, "gone": A}, {"same": A, "moved": B, "new": B})
    assert said.splitlines()[2:] == [
        "| `gone` | `sha256:aaaaaaaaaaaa` | – |",
        "| `moved` | `sha256:aaaaaaaaaaaa` | `sha256:bbbbbbbbbbbb` |",
        "| `new` | – | `sha256:bbbbbbbbbbbb` |"]
    assert refresh.changes({"same": A}, {"same": A}) == ""


@pytest.fixture
def registry():
    """The address of a registry that has one manifest under every name."""
    body = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": A,
                       "size": 2, "platform": {"os": "linux", "architecture": "amd64"}}],
    }).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.oci.image.index.v1+json")
            self.send_header("Docker-Content-Digest", B)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.docker
def test_the_digest_of_a_registry_is_asked_for_through_the_engine(engine, registry):
    from apexlab.build import engine as engines

    names = [f"{registry}/nvidia/cuda:a", f"{registry}/nvidia/cuda:b"]
    assert refresh.newest(names, engines.connect().registry_digest) == dict.fromkeys(names, B)


@pytest.mark.docker
def test_a_registry_that_is_out_of_reach_leaves_the_file_as_it_was(engine, tmp_path):
    file = tmp_path / "pins.toml"
    file.write_text(pins.text({NAME: A}))
    done = subprocess.run(
        [sys.executable, "-c", "import sys\nfrom apexlab.build import bake\n"
         "bake.NVIDIA = '127.0.0.1:1/nvidia/cuda'\nfrom apexlab.build.refresh import main\n"
         f"sys.argv[1:] = [{str(file)!r}]\nmain()"], capture_output=True, text=True)
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr.startswith("apexlab: ")
    assert pins.load(file) == {NAME: A}
