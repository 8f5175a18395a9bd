"""The HTTP server of the small object stores for tests, in its own process, with objects in memory.
It listens on loopback."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import urlopen

from penstock.host.processes import Process
from penstock.kafka.broker import free_port

_START_S: Final = 30.0
_STOP_S: Final = 10.0
_HEALTH: Final = "/lives"


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request."""

    method: str
    path: str
    """As sent, with escapes."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes

    @property
    def parts(self) -> list[str]:
        """The path's parts, without escapes."""
        return [unquote(part) for part in self.path.removeprefix("/").split("/")]


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response. For HEAD, only its body's size is sent."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class RestStore(ABC):
    """A store that answers requests; one at a time."""

    @abstractmethod
    def answer(self, request: Request) -> Answer:
        """The response to a request."""


def serve(store: RestStore) -> None:
    """Serves a store forever, on the port in the first command line argument."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body of an answer are two writes

        def _handle(self) -> None:
            url = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(
                self.command,
                url.path,
                dict(parse_qsl(url.query, keep_blank_values=True)),
                headers,
                self.rfile.read(int(headers.get("content-length") or 0)),
            )
            if url.path == _HEALTH:
                answer = Answer(200)
            else:
                with lock:
                    answer = store.answer(request)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

        def log_message(self, format: str, *arguments: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    server.serve_forever()


class RestServer:
    """A process that runs the store of a module, until it is closed."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = TemporaryDirectory(prefix="penstock-store-")
        self._process = Process(
            [sys.executable, "-m", module, str(self.port), *arguments],
            Path(self._folder.name) / "store.log",
            name=module,
        )
        self._process.start()
        try:
            self._process.wait_for(self._answers, _START_S, module)
        except BaseException:
            self.close()
            raise

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}{_HEALTH}", timeout=5):
                return True
        except OSError:
            return False

    def close(self) -> None:
        self._process.stop(_STOP_S)
        self._folder.cleanup()

    def __enter__(self) -> RestServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
