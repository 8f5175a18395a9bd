"""How the Cassandra connectors reach a cluster: TLS, passwords, roles, and an Astra bundle."""

from __future__ import annotations

import base64
import io
import json
import ssl
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path

import pytest

from penstock.api import ConfigInvalid, PenstockError
from penstock.connectors.cassandra.client.reactor import on_asyncio
from tests.servers.cassandra import DATACENTER, CassandraServer, Tls
from tests.servers.certificates import Authority

from .tasks import CREATE_KEYSPACE, KS, Task, rows

pytestmark = pytest.mark.timeout(400)

NUMBERS = count()
AUTHORITY = Authority()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraServer]:
    """A node with passwords and TLS, which requires client certificates."""
    folder = tmp_path_factory.mktemp("cassandra")
    store, trust = folder / "node.p12", folder / "trust.p12"
    store.write_bytes(AUTHORITY.issue("node", "localhost", "127.0.0.1").pkcs12("secret"))
    trust.write_bytes(AUTHORITY.pkcs12("secret"))
    tls = Tls(store, trust, "secret", asks_clients=True)
    with CassandraServer(passwords=True, tls=tls) as running:
        running.execute(CREATE_KEYSPACE)
        running.execute("CREATE ROLE reader WITH PASSWORD = 'r' AND LOGIN = true")
        running.execute("GRANT SELECT ON ALL KEYSPACES TO reader")
        yield running


@pytest.fixture
def task(server: CassandraServer, tmp_path: Path) -> Iterator[Task]:
    """A task that may write to its own table."""
    table = f"a{next(NUMBERS)}"
    server.execute(f"CREATE TABLE {KS}.{table} (id int PRIMARY KEY, v text)")
    trust, own = tmp_path / "trust.pem", tmp_path / "own.p12"
    trust.write_text(AUTHORITY.pem())
    own.write_bytes(AUTHORITY.issue("client").pkcs12("secret"))
    task = Task(server, table, "id=key, v=value.v")
    task.props |= {
        "auth.username": "cassandra",
        "auth.password": "cassandra",
        "ssl.provider": "JDK",
        "ssl.truststore.path": str(trust),
        "ssl.keystore.path": str(own),
        "ssl.keystore.password": "secret",
    }
    yield task
    task.close()


def numbers(server: CassandraServer, task: Task) -> list[int]:
    return [number for (number,) in rows(server, task.topic.removeprefix("topic-"), "id")]


def test_an_encrypted_connection_writes_with_either_event_loop(
    server: CassandraServer, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert task.findings() == []
    assert task.write({"v": "x"}, keys=[1]) == {}
    task.close()
    where = "penstock.connectors.cassandra.client.access.connection_class"
    monkeypatch.setattr(where, on_asyncio)
    keys = list(range(2, 1000))
    assert task.write(*[{"v": "x" * 5_000} for _ in keys], keys=keys, first=1) == {}
    assert numbers(server, task) == list(range(1, 1000))


@pytest.mark.parametrize(
    ("changes", "setting", "text"),
    [
        ({"auth.password": "wrong"}, "auth.username", "password"),
        ({"ssl.truststore.path": ""}, "contactPoints", "certificate"),
        ({"ssl.keystore.path": ""}, "contactPoints", ""),
    ],
    ids=["password", "unknown server", "no client certificate"],
)
def test_a_refused_connection_names_the_setting(
    task: Task, changes: dict[str, str], setting: str, text: str
) -> None:
    ((reported, error),) = task.findings(**changes)
    assert reported == setting
    assert text in error


def test_a_missing_trust_store_is_refused(task: Task, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"ssl\.truststore\.path"):
        task.findings(**{"ssl.truststore.path": str(tmp_path / "none")})


def test_a_role_that_may_not_write_fails_the_task(task: Task) -> None:
    task.props |= {"auth.username": "reader", "auth.password": "r"}
    with pytest.raises(PenstockError, match="MODIFY"):
        task.write({"v": "x"}, keys=[3])


class Metadata(BaseHTTPRequestHandler):
    """Astra's metadata service: where the proxy is, and the ids of the nodes behind it."""

    answer = b""

    def do_GET(self) -> None:
        assert self.path == "/metadata"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def bundle(server: CassandraServer, tmp_path: Path) -> Iterator[Path]:
    """A secure connect bundle for the server, like Astra's. The node takes the place of Astra's
    proxy: it ignores the server name by which the proxy chooses a node."""
    node = server.execute("SELECT host_id FROM system.local")[0][0]
    contact = {
        "type": "sni_proxy",
        "local_dc": DATACENTER,
        "sni_proxy_address": f"127.0.0.1:{server.port}",
        "contact_points": [str(node)],
    }
    handler = type(
        "Answer", (Metadata,), {"answer": json.dumps({"contact_info": contact}).encode()}
    )
    issued = tmp_path / "service.pem"
    issued.write_text(AUTHORITY.issue("service", "localhost", "127.0.0.1").pem())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued)
    context.load_verify_locations(cadata=AUTHORITY.pem())
    context.verify_mode = ssl.CERT_REQUIRED
    service = HTTPServer(("127.0.0.1", 0), handler)
    service.socket = context.wrap_socket(service.socket, server_side=True)
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    client = AUTHORITY.issue("client")
    config = {"host": "127.0.0.1", "port": service.server_port, "keyspace": KS}
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("ca.crt", AUTHORITY.pem())
        archive.writestr("cert", client.chain_pem())
        archive.writestr("key", client.key_pem())
    yield path
    service.shutdown()
    service.server_close()
    thread.join()


def without_addresses(task: Task) -> None:
    for name in [*task.props]:
        if name.startswith("ssl.") or name in ("contactPoints", "port", "loadBalancing.localDc"):
            del task.props[name]


@pytest.mark.filterwarnings("ignore:ssl.PROTOCOL_TLS is deprecated")  # by the driver
@pytest.mark.parametrize("form", ["path", "base64"])
def test_a_secure_connect_bundle_takes_the_place_of_addresses_and_tls(
    server: CassandraServer, task: Task, bundle: Path, form: str
) -> None:
    without_addresses(task)
    encoded = base64.b64encode(bundle.read_bytes()).decode()
    task.props["cloud.secureConnectBundle"] = str(bundle) if form == "path" else f"base64:{encoded}"
    assert task.findings() == []
    keys = list(range(100))
    assert task.write(*[{"v": "x"} for _ in keys], keys=keys) == {}
    assert numbers(server, task) == keys
    ((setting, _),) = task.findings(**{"auth.password": "wrong"})
    assert setting == "auth.username"


def test_an_invalid_bundle_is_refused(task: Task, tmp_path: Path) -> None:
    without_addresses(task)
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    for content in (b"no archive", empty.getvalue()):
        path = tmp_path / "bundle.zip"
        path.write_bytes(content)
        ((setting, error),) = task.findings(**{"cloud.secureConnectBundle": str(path)})
        assert setting == "cloud.secureConnectBundle", error
