"""How the MQTT connectors reach a broker: users, TLS, and what validation says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from penstock.api import (
    ConfigInvalid,
    Failed,
)
from penstock.connectors.mqtt.client.errors import Refused, Unreachable
from penstock.connectors.mqtt.sink import MqttSink
from penstock.testing.conformance import records_of
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority
from tests.servers.mqtt import NO_MOSQUITTO, Mosquitto, mosquitto

from .tasks import (
    WAIT_S,
    is_connected,
    lenses_source,
    new_root,
    sink,
    source,
    values_of,
)

pytestmark = pytest.mark.skipif(mosquitto() is None, reason=NO_MOSQUITTO)


@pytest.fixture
def root() -> str:
    return new_root()


def test_user_names_and_what_a_validation_says(root: str) -> None:
    with Mosquitto(users={"ada": "right"}) as broker:
        for version in ("3.1.1", "5"):
            settings = {"mqtt__username": "ada", "penstock__mqtt__version": version}
            reader, _ = source(broker, f"{root}/a", mqtt__password="right", **settings)
            wait_until(lambda reader=reader: is_connected(reader), WAIT_S, "the connection")
            reader.close()
            wrong, _ = source(broker, f"{root}/a", mqtt__password="wrong", **settings)
            with pytest.raises(Refused, match=r"mqtt\.username and mqtt\.password") as caught:
                values_of(wrong, 1, seconds=5)
            assert "wrong" not in str(caught.value)
            wrong.close()
        config = MqttSink.plugin.config.parse({"mqtt.server.uri": broker.uri})
        (finding,) = MqttSink().validate_live(config)
        assert finding.setting == "mqtt.username"
    (finding,) = MqttSink().validate_live(config)
    assert finding.setting == "mqtt.server.uri"


def test_a_missing_broker_is_unavailable(root: str) -> None:
    reader, _ = source("tcp://127.0.0.1:1", f"{root}/a", mqtt__connect__timeout__seconds="1")
    with pytest.raises(Unreachable, match=r"mqtt\.server\.uri"):
        values_of(reader, 1, seconds=5)
    reader.close()
    writer, _ = sink("tcp://127.0.0.1:1", max__retry__time__ms="100")
    with pytest.raises(Unreachable, match=r"mqtt\.server\.uri"):
        writer.write(records_of(["v"]), {})
    writer.close()


def expired(authority: Authority, name: str, *hosts: str) -> Any:
    """An expired certificate."""
    issued = authority.issue(name, *hosts)
    now = datetime.now(UTC)
    certificate = issued.certificate
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(certificate.issuer)
        .public_key(issued.key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now - timedelta(days=1))
        .add_extension(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value, False
        )
    )
    signed = builder.sign(authority._key, hashes.SHA256())
    return type(issued)(issued.key, signed, issued.issuer)


def secure(folder: Path, server: Any, authority: Authority) -> list[str]:
    """The settings of a broker that requires client certificates."""
    (folder / "ca.pem").write_text(authority.pem())
    (folder / "server.pem").write_text(server.chain_pem())
    (folder / "server.key").write_text(server.key_pem())
    return [
        f"cafile {folder}/ca.pem",
        f"certfile {folder}/server.pem",
        f"keyfile {folder}/server.key",
        "require_certificate true",
    ]


def test_tls_with_certificates_of_both(tmp_path: Path, root: str) -> None:
    authority = Authority()
    lines = secure(tmp_path, authority.issue("broker", "127.0.0.1"), authority)
    (tmp_path / "client.p12").write_bytes(authority.issue("client").pkcs12("pass"))
    (tmp_path / "trust.p12").write_bytes(authority.pkcs12("word"))
    client = authority.issue("client")
    (tmp_path / "client.pem").write_text(client.chain_pem())
    (tmp_path / "client.key").write_text(client.key_pem())
    (tmp_path / "late.pem").write_text(expired(authority, "late").pem())
    with tls_broker(lines) as uri:
        settings = {
            "mqtt__ssl__trust__store__path": str(tmp_path / "trust.p12"),
            "mqtt__ssl__trust__store__password": "word",
            "mqtt__ssl__key__store__path": str(tmp_path / "client.p12"),
            "mqtt__ssl__key__store__password": "pass",
        }
        reader, _ = source(uri, f"{root}/#", mqtt__qos="1", **settings)
        wait_until(lambda: is_connected(reader), WAIT_S, "the connection")
        writer, _ = sink(uri, penstock__mqtt__topic=f"{root}/a", **settings)
        payloads = [b"%d" % n * 50_000 for n in range(10)]
        failed: Failed = {}
        writer.write(records_of(payloads), failed)
        assert not failed
        assert values_of(reader, 10) == payloads
        reader.close()
        writer.close()

        lenses, _ = lenses_source(
            uri,
            f"INSERT INTO k SELECT * FROM {root}/#",
            connect__mqtt__ssl__ca__cert=str(tmp_path / "ca.pem"),
            connect__mqtt__ssl__cert=str(tmp_path / "client.pem"),
            connect__mqtt__ssl__key=str(tmp_path / "client.key"),
        )
        wait_until(lambda: is_connected(lenses), WAIT_S, "the connection")
        lenses.close()

        late = {**settings, "mqtt__ssl__key__store__path": str(tmp_path / "late.pem")}
        refused, _ = source(uri, f"{root}/#", **late)
        with pytest.raises((Refused, Unreachable)):
            values_of(refused, 1, seconds=40)
        refused.close()
        nobody = {name: value for name, value in settings.items() if "key__store" not in name} | {
            "mqtt__connect__timeout__seconds": "1"
        }
        refused, _ = source(uri, f"{root}/#", **nobody)
        with pytest.raises((Refused, Unreachable)):
            values_of(refused, 1, seconds=5)
        refused.close()


def test_an_expired_certificate_of_the_broker_is_named(tmp_path: Path, root: str) -> None:
    authority = Authority()
    lines = secure(tmp_path, expired(authority, "broker", "127.0.0.1"), authority)
    with tls_broker(lines[:3]) as uri:
        reader, _ = source(uri, f"{root}/#", mqtt__ssl__trust__store__path=str(tmp_path / "ca.pem"))
        with pytest.raises(Refused, match=r"expired.*mqtt\.ssl\.trust\.store\.path"):
            values_of(reader, 1, seconds=5)
        reader.close()


@contextmanager
def tls_broker(lines: list[str]) -> Iterator[str]:
    with Mosquitto(lines) as broker:
        yield f"ssl://127.0.0.1:{broker.port}"


def test_stores_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.p12").write_bytes(b"nothing")
    for path in (tmp_path / "missing", tmp_path / "bad.p12"):
        with pytest.raises(ConfigInvalid, match=r"mqtt\.ssl\.trust\.store\.path"):
            source("ssl://h", "a", mqtt__ssl__trust__store__path=str(path))
    with pytest.raises(ConfigInvalid, match=r"connect\.mqtt\.ssl\.cert"):
        lenses_source(
            "ssl://h",
            "INSERT INTO k SELECT * FROM a",
            connect__mqtt__ssl__cert=str(tmp_path / "missing"),
            connect__mqtt__ssl__key=str(tmp_path / "missing"),
        )
