"""Kafka behind TLS with client certificates: every client reads every kind of store."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from penstock.kafka import admin, clients
from penstock.kafka.broker import BRIEF, Broker, BrokerListener, free_port
from penstock.kafka.group import Callbacks, WorkerGroup
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority

# kafka-python leaves the sockets of failed attempts to connect to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WAIT_S = 120.0
SECRET = "store-pass"
BOTH = ("PEM file", "PKCS12 file", "settings")


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Collects leftovers before others are blamed for them."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def folder(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores of a client."""
    folder = tmp_path_factory.mktemp("kafka-tls")
    own = authority.issue("client")
    (folder / "own.pem").write_text(own.pem(SECRET))
    (folder / "key.pem").write_text(own.key_pem(SECRET))
    (folder / "chain.pem").write_text(own.chain_pem())
    (folder / "own.p12").write_bytes(own.pkcs12(SECRET))
    (folder / "trust.pem").write_text(authority.pem())
    (folder / "trust.p12").write_bytes(authority.pkcs12(SECRET))
    return folder


@pytest.fixture(scope="module")
def secure(
    authority: Authority, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker with a second listener, which requires certificates."""
    (folder / "broker.pem").write_text(authority.issue("broker", "127.0.0.1").pem())
    port = free_port()
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "trust.pem"),
    }
    with Broker(
        tmp_path_factory.mktemp("secure-broker"),
        settings=settings,
        listeners=[BrokerListener("SSL", port, port)],
        java_options=(BRIEF,),
    ) as broker:
        yield broker


def address(broker: Broker) -> str:
    """The listener that requires certificates."""
    return f"127.0.0.1:{broker._listeners[0].port}"


def keys(folder: Path, where: str) -> dict[str, str]:
    match where:
        case "PEM file":
            return {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(folder / "own.pem"),
                "ssl.key.password": SECRET,
            }
        case "PKCS12 file":
            return {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(folder / "own.p12"),
                "ssl.keystore.password": SECRET,
            }
        case _:
            return {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": (folder / "key.pem").read_text(),
                "ssl.key.password": SECRET,
                "ssl.keystore.certificate.chain": (folder / "chain.pem").read_text(),
            }


def trust(folder: Path, where: str) -> dict[str, str]:
    match where:
        case "PEM file":
            return {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(folder / "trust.pem"),
            }
        case "PKCS12 file":
            return {
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(folder / "trust.p12"),
                "ssl.truststore.password": SECRET,
            }
        case _:
            return {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": (folder / "trust.pem").read_text(),
            }


@pytest.mark.parametrize("trusted", BOTH)
@pytest.mark.parametrize("key", BOTH)
def test_a_member_joins_and_an_admin_client_connects_with_every_kind_of_store(
    key: str, trusted: str, secure: Broker, folder: Path, unique: Callable[[str], str]
) -> None:
    java = {
        "bootstrap.servers": address(secure),
        "security.protocol": "SSL",
        **keys(folder, key),
        **trust(folder, trusted),
    }
    client, _ = admin.connect(clients.admin(java).settings)
    assert client.list_topics(timeout=10).brokers
    member = clients.member(java)
    rounds: list[str] = []
    group = WorkerGroup(
        member.arguments(),
        group_id=unique("workers"),
        client_id="me",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        rebalance_timeout_ms=10_000,
        callbacks=Callbacks(
            offers=lambda: [("sessioned", b"new")],
            perform_assignment=lambda leader, protocol, generation, members: members,
            joined=lambda generation, member, name, data: rounds.append(name),
            lost=lambda end: None,
        ),
    )
    group.join()
    try:
        wait_until(lambda: rounds, 30, "the member to join")
    finally:
        group.leave(10)
    other = KafkaAdminClient(**member.arguments())
    try:
        assert other.list_groups() is not None
    finally:
        other.close()


def test_without_a_certificate_nobody_connects(secure: Broker, folder: Path) -> None:
    """The listener requires one, or the others would prove nothing."""
    logging.disable(logging.CRITICAL)
    java = {
        "bootstrap.servers": address(secure),
        "security.protocol": "SSL",
        **trust(folder, "PEM file"),
    }
    with pytest.raises(admin.StartupFailed):
        admin.connect(clients.admin(java).settings, 3.0)
    logging.disable(logging.NOTSET)


def under(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {prefix + name: text for name, text in settings.items()}


def test_a_worker_with_tls_for_itself_moves_records_and_writes_dead_letters(
    secure: Broker, folder: Path, tmp_path: Path
) -> None:
    """Its admin clients have no settings of their own: they use the worker's."""
    own = {"security.protocol": "SSL", **keys(folder, "PKCS12 file"), **trust(folder, "settings")}
    theirs = {"security.protocol": "SSL", **keys(folder, "settings"), **trust(folder, "PEM file")}
    javas = {
        "security.protocol": "SSL",
        **keys(folder, "PKCS12 file"),
        **trust(folder, "PEM file"),
    }  # Java cannot read the encrypted key of `theirs`
    settings = {
        **worker_settings(address(secure), "kafka-tls"),
        **own,
        **under("producer.", theirs),
        **under("consumer.", javas),
        "offset.flush.interval.ms": "1000",
    }
    lines = tmp_path / "lines.txt"
    lines.write_text("1\ntwo\n3\n")
    topics = Topics(secure.bootstrap)
    with WorkerProcess(tmp_path, settings) as worker:
        worker.await_rest(WAIT_S, "/health")
        worker.create(
            "lines",
            {
                "connector.class": "FileStreamSource",
                "file": str(lines),
                "topic": "tls-lines",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "topic.creation.default.partitions": "2",
                "topic.creation.default.replication.factor": "1",
            },
        )
        worker.create(
            "numbers",
            {
                "connector.class": "FileStreamSink",
                "file": str(tmp_path / "numbers.txt"),
                "topics": "tls-lines",
                "value.converter": "org.apache.kafka.connect.converters.IntegerConverter",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": "tls-dead",
                "errors.deadletterqueue.topic.replication.factor": "1",
            },
        )
        for name in ("lines", "numbers"):
            worker.await_states(name, ["RUNNING", "RUNNING"], WAIT_S)
        wait_until(lambda: topics.count("tls-dead") == 3, WAIT_S, "dead letters")
        assert len(topics.ends("tls-lines")) == 2
