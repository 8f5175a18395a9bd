"""An S3 for tests: moto's server in its own process, and a proxy in front of it that injects
faults. Both listen on loopback."""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final
from urllib.request import urlopen

from penstock.host.processes import Process
from penstock.kafka.broker import free_port

INSTALL: Final = "pip install 'moto[server]'"
"""The command that installs the server."""

_START_S: Final = 60.0
_STOP_S: Final = 10.0


def is_installed() -> bool:
    """Whether the server is installed."""
    return find_spec("moto") is not None and find_spec("flask") is not None


class ObjectStore:
    """A store, until it is closed. Accepts any credentials."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = TemporaryDirectory(prefix="penstock-s3-")
        self._process = Process(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            Path(self._folder.name) / "moto.log",
            name="moto's server",
        )
        self._process.start()
        try:
            self._process.wait_for(self._answers, _START_S, "moto's server")
        except BaseException:
            self.close()
            raise

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/moto-api/data.json", timeout=5):
                return True
        except OSError:
            return False

    def close(self) -> None:
        self._process.stop(_STOP_S)
        self._folder.cleanup()

    def __enter__(self) -> ObjectStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


Fault = Callable[[str, str], str | None]
"""The fault of a request, by its method and path: None, `answer CODE STATUS`, `cut` (the connection
ends within the request's body), `lose` (the request is executed, but its response is lost)."""


class FaultyProxy:
    """Passes requests on to a store, unless `fault` returns a fault."""

    def __init__(self, port: int) -> None:
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                proxy.requests.append((self.command, self.path))
                fault = proxy.fault(self.command, self.path)
                size = int(self.headers.get("Content-Length") or 0)
                if fault == "cut":
                    self.rfile.read(size // 2)
                    self.close_connection = True
                    return
                body = self.rfile.read(size)
                if fault is not None and fault.startswith("answer"):
                    _, code, status = fault.split()
                    self._answer(
                        int(status),
                        {"Content-Type": "application/xml"},
                        f"<Error><Code>{code}</Code><Message>a fault</Message></Error>".encode(),
                    )
                    return
                store = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    store.request(self.command, self.path, body, dict(self.headers))
                    answer = store.getresponse()
                    data = answer.read()
                finally:
                    store.close()
                if fault == "lose":
                    self.close_connection = True
                    return
                self._answer(answer.status, dict(answer.getheaders()), data)

            def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                self.send_response(status)
                length = headers.get("Content-Length", "0")
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                head = self.command == "HEAD"
                self.send_header("Content-Length", length if head else str(len(data)))
                self.end_headers()
                if not head:
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

            def log_message(self, format: str, *arguments: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="proxy", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
