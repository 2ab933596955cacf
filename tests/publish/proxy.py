"""A way to the registry that breaks off after so many bytes, and stays broken until mended."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Forwards connections to `target`. `left` is how many bytes may still pass; None for any."""

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self.target = (host, int(port))
        self.left: int | None = None
        self.passed = 0
        self._lock, self._open = threading.Lock(), set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            if self.left is not None and self.left <= 0:
                client.close()
                continue
            behind = socket.create_connection(self.target)
            for pair in ((client, behind), (behind, client)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                with self._lock:
                    self.passed += len(data)
                    if self.left is not None:
                        self.left -= len(data)
                        if self.left <= 0:
                            break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
