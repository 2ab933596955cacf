"""A web server on loopback with TLS, for what a real registry would not do."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def serve(handler: type[BaseHTTPRequestHandler], home: Path) -> ThreadingHTTPServer:
    """A server that runs, with the certificate `tls.crt` and its key in `home`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "tls.crt", home / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
