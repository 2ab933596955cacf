"""A registry on loopback with TLS and a password: Debian's docker-registry, in a folder of its own,
which ends with the process that started it. Standard library only.

For trials and tests. Its password is written here: it keeps nobody out, and is there so that
nothing works which would fail at a registry that asks for one.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

USER, PASSWORD = "publisher", "loopback only"
# bcrypt, the one kind of hash that docker-registry takes.
HTPASSWD = "publisher:$2b$05$abcdefghijklmnopqrstuuAuB0xydZDuTXDmuHprA2PsyrkpiJ0D6\n"


class RegistryFailedError(Exception):
    """The registry did not start; the message has its own words."""


@dataclass(frozen=True)
class LoopbackRegistry:
    """A registry that runs. `home` has its certificate `tls.crt` and, in `docker`, the login."""

    host: str
    home: Path
    process: subprocess.Popen[bytes]

    @property
    def ca(self) -> Path:
        return self.home / "tls.crt"

    @property
    def storage(self) -> Path:
        return self.home / "storage"

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(home: Path, inside: tuple[str, ...] = (), auth: dict[str, object] | None = None,
          ) -> LoopbackRegistry:  # fmt: skip
    """Start a registry that keeps all it has in `home`; `inside` is a command to run it by, `auth`
    how it asks for a login (default: the password itself). Raises RegistryFailedError."""
    storage = home / "storage"
    storage.mkdir(parents=True)
    host = f"127.0.0.1:{_free_port()}"
    certificate(home)
    (home / "htpasswd").write_text(HTPASSWD)
    asks = auth or {"htpasswd": {"realm": "trial", "path": str(home / "htpasswd")}}
    (home / "registry.yml").write_text(json.dumps({  # JSON is YAML
        "version": "0.1", "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(storage)}, "delete": {"enabled": True}},
        "http": {"addr": host, "secret": "of this trial",
                 "tls": {"certificate": str(home / "tls.crt"), "key": str(home / "tls.key")}},
        "auth": asks,
    }, indent=2))
    logged_in(home, host)
    # A session of its own, so that Ctrl-C does not end it under whoever uses it; and whatever
    # happens to its maker, it does not outlive it.
    bound = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
    with (home / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [*inside, *bound, "docker-registry", "serve", str(home / "registry.yml")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    registry = LoopbackRegistry(host, home, process)
    try:
        _wait(registry)
    except BaseException:
        registry.stop()
        raise
    return registry


def certificate(home: Path) -> Path:
    """A self-signed certificate for loopback, and its key `tls.key` beside it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", home / "tls.key",
         "-out", home / "tls.crt", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True)  # fmt: skip
    return home / "tls.crt"


def logged_in(home: Path, host: str) -> None:
    """What `docker login` writes, for one more address."""
    file = home / "docker" / "config.json"
    file.parent.mkdir(exist_ok=True)
    known = json.loads(file.read_text()) if file.exists() else {"auths": {}}
    word = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    known["auths"][host] = {"auth": word}
    file.write_text(json.dumps(known))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(registry: LoopbackRegistry) -> None:
    """Until it answers, and asks for a login."""
    context = ssl.create_default_context(cafile=str(registry.ca))
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                         urllib.request.HTTPSHandler(context=context))
    for _ in range(100):
        if registry.process.poll() is not None:
            break
        try:
            direct.open(f"https://{registry.host}/v2/", timeout=5)
        except urllib.error.HTTPError as error:
            if error.code == 401:
                return
            break
        except OSError:
            time.sleep(0.1)
        else:
            break
    log = (registry.home / "registry.log").read_text(errors="replace")
    raise RegistryFailedError(f"The registry at {registry.host} does not start, or asks for no "
                              f"password. It says: {log[-2000:] or 'nothing'}")
