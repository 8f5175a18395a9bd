"""Clusters over https: which authorities are trusted, and who presents a certificate."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.app import run
from penstock.cli.session import CommandSession
from tests.servers.certificates import Authority


class Handler(BaseHTTPRequestHandler):
    """A worker that has no connectors."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: Any) -> None: ...


class Server(HTTPServer):
    """Logs nothing about clients that hang up because they do not trust it."""

    def handle_error(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def port(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that requires a certificate of the same authority."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "own.pem").write_text(authority.issue("worker", "127.0.0.1").pem())
    (folder / "ca.pem").write_text(authority.pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem")
    context.load_verify_locations(folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.mark.parametrize(
    ("members", "code", "said"),
    [
        ('ca = "ca.pem"\ncert = "me.pem"', 0, ""),
        ('ca = "ca.pem"\ncert = "chain.pem"\nkey = "key.pem"', 0, ""),
        ('verify = false\ncert = "me.pem"', 0, ""),
        ('cert = "me.pem"', 6, "The certificate is not trusted"),
        ('ca = "other.pem"\ncert = "me.pem"', 6, "The certificate is not trusted"),
        ('ca = "ca.pem"', 6, "No worker answers"),
        ('ca = "ca.pem"\ncert = "chain.pem"', 2, "Cannot use the TLS files of the cluster 'it'"),
    ],
)
def test_https_uses_the_stores_of_the_file(
    authority: Authority,
    port: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    members: str,
    code: int,
    said: str,
) -> None:
    mine = authority.issue("me")
    files = {
        "ca.pem": authority.pem(),
        "other.pem": Authority("other").pem(),
        "me.pem": mine.pem(),
        "chain.pem": mine.chain_pem(),
        "key.pem": mine.key_pem(),
        "config.toml": f'[clusters.it]\nurl = "https://127.0.0.1:{port}"\n{members}\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    session = CommandSession(environ={"PENSTOCK_CONFIG": str(tmp_path / "config.toml")})
    assert run(["list", "connectors", "--names"], session) == code
    assert said in capsys.readouterr().err
