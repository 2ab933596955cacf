"""What the tests of images share: running `apexlab image` for real, on the stand-in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "tests" / "standin"
# One architecture, so that the compiler has little to do; names of their own, so that the image
# that a person built last keeps its name.
CELL = ("--torch", "2.6", "--cuda", "12.4", "--base", "offline", "--archs", "9.0")
CA_INSIDE = "/tmp/ca.crt"


def apexlab(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run the installed command; never raises for its exit code."""
    program = Path(sys.executable).with_name("apexlab")
    command = [program, *arguments]
    return subprocess.run(command, text=True, capture_output=True, cwd=ROOT, **options)


def build(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return apexlab("image", *CELL, "--apex-source", str(source), *arguments)


@dataclass(frozen=True)
class Image:
    """A built image. Calling it runs a command in a new container."""

    name: str
    summary: str

    def __call__(self, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        arguments = ["docker", "run", "--rm", *ca_options(), *options, self.name, *command]
        return subprocess.run(arguments, text=True, capture_output=True)


def ca_options() -> list[str]:
    """Give a container the certificates of this host, where they are not the usual ones."""
    file = os.environ.get("APEXLAB_CA") or os.environ.get("SSL_CERT_FILE")
    if not file:
        return []
    return ["-v", f"{file}:{CA_INSIDE}:ro", "-e", f"PIP_CERT={CA_INSIDE}",
            "-e", f"SSL_CERT_FILE={CA_INSIDE}"]  # fmt: skip


@pytest.fixture(scope="session")
def runtime(engine) -> Image:
    """The slim image, built from the stand-in."""
    return _built("runtime")


@pytest.fixture(scope="session")
def bench(engine, runtime) -> Image:
    """The image that `make image` builds, from the stand-in."""
    return _built("bench")


def _built(target: str) -> Image:
    name = f"apexlab-test:{target}"
    done = build(STANDIN, "--target", target, "--tag", name)
    assert done.returncode == 0, done.stderr[-4000:]
    return Image(name, done.stdout)


@pytest.fixture
def image_build():
    """`build(source, *arguments)`: run `apexlab image` on a source tree."""
    return build


@pytest.fixture
def run_apexlab():
    """`apexlab(*arguments)`: run the installed command."""
    return apexlab


@pytest.fixture
def sabotaged(tmp_path):
    """A copy of the stand-in that breaks in the way that is named."""

    def copy(mode: str) -> Path:
        tree = tmp_path / "source"
        shutil.copytree(STANDIN, tree)
        (tree / "sabotage").write_text(mode)
        return tree

    return copy


@pytest.fixture
def empty_registry():
    """The address of a registry that answers, and has no image any more."""
    body = b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path.rstrip("/") == "/v2"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(2 if found else len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(b"{}" if found else body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
