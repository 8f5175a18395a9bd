"""Java's client settings in the spelling of the other clients."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigInvalid
from penstock.kafka import clients
from penstock.kafka.clients import ClientSettings

ALL: ClientSettings = {"reconnect.backoff.max.ms": 1_000}
PRODUCER: ClientSettings = {**ALL, "partitioner": "murmur2_random"}
CONSUMER: ClientSettings = {**ALL, "enable.auto.commit": False, "enable.auto.offset.store": False}

TO_PRODUCER: list[tuple[dict[str, str], ClientSettings, tuple[str, ...]]] = [
    ({"bootstrap.servers": "a:1,b:2"}, {"bootstrap.servers": "a:1,b:2"}, ()),
    ({"acks": "1", "linger.ms": "7"}, {"acks": "1", "linger.ms": "7"}, ()),
    ({"linger.ms": "2147483647"}, {"linger.ms": 900_000}, ()),
    ({"max.request.size": "5"}, {"message.max.bytes": "5"}, ()),
    ({"send.buffer.bytes": "9"}, {"socket.send.buffer.bytes": "9"}, ()),
    ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": 32768}, ()),
    ({"buffer.memory": "10"}, {"queue.buffering.max.kbytes": 1}, ()),
    ({"metric.reporters": "x", "max.block.ms": "1"}, {}, ("metric.reporters", "max.block.ms")),
    ({"max.poll.records": "1"}, {}, ("max.poll.records",)),
    ({"fetch.max.wait.ms": "1"}, {}, ("fetch.max.wait.ms",)),  # a consumer's
]


@pytest.mark.parametrize(("java", "settings", "ignored"), TO_PRODUCER)
def test_a_producer_gets_what_it_has_a_setting_for(
    java: dict[str, str], settings: ClientSettings, ignored: tuple[str, ...]
) -> None:
    assert clients.producer(java) == clients.Translated({**PRODUCER, **settings}, ignored)


TO_CONSUMER: list[tuple[dict[str, str], ClientSettings, tuple[str, ...]]] = [
    ({"group.id": "g", "isolation.level": "read_committed"},) * 2 + ((),),  # type: ignore[list-item]
    ({"fetch.max.wait.ms": "3"}, {"fetch.wait.max.ms": "3"}, ()),
    ({"enable.auto.commit": "true"}, {}, ("enable.auto.commit",)),  # not the user's to choose
    ({"max.request.size": "5"}, {}, ("max.request.size",)),
]


@pytest.mark.parametrize(("java", "settings", "ignored"), TO_CONSUMER)
def test_a_consumer_gets_what_it_has_a_setting_for_and_never_commits_by_itself(
    java: dict[str, str], settings: ClientSettings, ignored: tuple[str, ...]
) -> None:
    assert clients.consumer(java) == clients.Translated({**CONSUMER, **settings}, ignored)


TO_ADMIN: list[tuple[dict[str, str], ClientSettings]] = [
    ({"security.protocol": "SSL"}, {"security.protocol": "SSL"}),
    (
        {"ssl.endpoint.identification.algorithm": ""},
        {"ssl.endpoint.identification.algorithm": "none"},
    ),
    (
        {"ssl.endpoint.identification.algorithm": "https"},
        {"ssl.endpoint.identification.algorithm": "https"},
    ),
    (
        {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"},
        {"ssl.ca.location": "/ca.pem"},
    ),
    ({"ssl.truststore.certificates": "-----BEGIN"}, {"ssl.ca.pem": "-----BEGIN"}),
    (
        {
            "ssl.keystore.location": "/me.pem",
            "ssl.keystore.type": "pem",
            "ssl.key.password": "secret",
        },
        {
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.pem",
            "ssl.key.password": "secret",
        },
    ),
    (
        {"ssl.keystore.certificate.chain": "chain", "ssl.keystore.key": "key"},
        {"ssl.certificate.pem": "chain", "ssl.key.pem": "key"},
    ),
    (
        {
            "ssl.keystore.location": "/me.p12",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": "secret",
        },
        {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "secret"},
    ),
    (
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
            ' username="me" password="a\\"b\\\\c";',
        },
        {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": 'a"b\\c'},
    ),
]


@pytest.mark.parametrize(("java", "settings"), TO_ADMIN)
def test_stores_and_logins_are_translated(java: dict[str, str], settings: ClientSettings) -> None:
    assert clients.admin(java) == clients.Translated({**ALL, **settings})


BACKOFFS: list[tuple[dict[str, str], int | str]] = [
    ({}, 1_000),
    ({"reconnect.backoff.ms": "70"}, 1_000),
    ({"reconnect.backoff.ms": "5000"}, 5_000),
    ({"reconnect.backoff.ms": "70", "reconnect.backoff.max.ms": "90"}, "90"),
]


@pytest.mark.parametrize(("java", "most"), BACKOFFS)
def test_a_broker_that_is_back_is_found_as_soon_as_by_java(
    java: dict[str, str], most: int | str
) -> None:
    for client in (clients.producer, clients.consumer, clients.admin):
        assert client(java).settings["reconnect.backoff.max.ms"] == most
    member = clients.member({"bootstrap.servers": "a:1", **java})
    assert member["reconnect_backoff_max_ms"] == int(most)


REFUSED = [
    ({"ssl.truststore.location": "/ca.jks"}, "ssl.truststore.type", "read PEM stores"),
    (
        {"ssl.truststore.location": "/ca.p12", "ssl.truststore.type": "PKCS12"},
        "ssl.truststore.type",
        "read PEM stores",
    ),
    (
        {"ssl.keystore.location": "/me.jks", "ssl.keystore.type": "JKS"},
        "ssl.keystore.type",
        "read PEM or PKCS12 stores",
    ),
    (
        {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
        "sasl.jaas.config",
        "only PLAIN and SCRAM logins are supported",
    ),
    ({"bootstrap.servers": "a:1", "request.timeout.ms": "soon"}, "request.timeout.ms", "soon"),
]


@pytest.mark.parametrize(("java", "setting", "words"), REFUSED)
def test_what_cannot_be_translated_is_refused_by_its_name(
    java: dict[str, str], setting: str, words: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        clients.member({"bootstrap.servers": "a:1", **java})
    assert f"for configuration {setting}: " in str(refused.value)
    assert words in str(refused.value)


def test_nan_is_refused_by_its_own_name() -> None:
    for setting in ("linger.ms", "buffer.memory"):
        with pytest.raises(ConfigInvalid, match=f"Invalid value x for configuration {setting}: "):
            clients.producer({setting: "x"})


def test_a_password_is_in_no_message() -> None:
    jaas = 'org.example.Login required password="hunter2";'
    with pytest.raises(ConfigInvalid) as refused:
        clients.admin({"sasl.jaas.config": jaas})
    assert "hunter2" not in str(refused.value)


def test_membership_is_spelled_as_kafka_python_does() -> None:
    java = {
        "bootstrap.servers": "a:1, b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="me" password="pw";',
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.keystore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
        "request.timeout.ms": "1234",
        "acks": "all",
    }
    assert clients.member(java) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "pw",
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/me.pem",
        "ssl_keyfile": "/me.pem",
        "ssl_check_hostname": False,
        "reconnect_backoff_max_ms": 1_000,
        "request_timeout_ms": 1234,
    }
