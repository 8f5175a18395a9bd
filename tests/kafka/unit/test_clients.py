"""Java's client settings in the spelling of the other clients."""

from __future__ import annotations

import pickle
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from penstock.errors import ConfigInvalid
from penstock.kafka import clients
from penstock.kafka.clients import ClientSettings
from tests.servers.certificates import Authority

ALL: ClientSettings = {"reconnect.backoff.max.ms": 1_000}
PRODUCER: ClientSettings = {**ALL, "partitioner": "murmur2_random"}
CONSUMER: ClientSettings = {**ALL, "enable.auto.commit": False, "enable.auto.offset.store": False}

TO_PRODUCER: list[tuple[dict[str, str], ClientSettings, tuple[str, ...]]] = [
    ({"bootstrap.servers": "a:1,b:2"}, {"bootstrap.servers": "a:1,b:2"}, ()),
    ({"acks": "1", "linger.ms": "7"}, {"acks": "1", "linger.ms": 7}, ()),
    (
        {"linger.ms": "2147483646", "delivery.timeout.ms": "2147483647"},
        {"linger.ms": 900_000, "delivery.timeout.ms": 2_147_483_647},
        (),
    ),
    ({"max.request.size": "5"}, {"message.max.bytes": 1_000}, ()),
    ({"send.buffer.bytes": "9"}, {"socket.send.buffer.bytes": 9}, ()),
    ({"send.buffer.bytes": "-1"}, {"socket.send.buffer.bytes": 0}, ()),
    ({"connections.max.idle.ms": "-1"}, {"connections.max.idle.ms": 0}, ()),
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
    ({"fetch.max.wait.ms": "3"}, {"fetch.wait.max.ms": 3}, ()),
    ({"enable.auto.commit": "true"}, {}, ("enable.auto.commit",)),  # not the user's to choose
    ({"max.request.size": "5"}, {}, ("max.request.size",)),
]


@pytest.mark.parametrize(("java", "settings", "ignored"), TO_CONSUMER)
def test_a_consumer_gets_what_it_has_a_setting_for_and_never_commits_by_itself(
    java: dict[str, str], settings: ClientSettings, ignored: tuple[str, ...]
) -> None:
    assert clients.consumer(java) == clients.Translated({**CONSUMER, **settings}, ignored)


AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("me", "localhost")
LOGIN = {
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="me" password="a\\"b\\\\c";',
}
ACCOUNT = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": 'a"b\\c'}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    (folder / "me.pem").write_text(ISSUED.pem("secret"))
    (folder / "me.p12").write_bytes(ISSUED.pkcs12("secret"))
    (folder / "ca.pem").write_text(AUTHORITY.pem())
    (folder / "ca.p12").write_bytes(AUTHORITY.pkcs12("secret"))
    return folder


KEYS: dict[str, dict[str, str]] = {
    "a PEM file": {
        "ssl.keystore.type": "pem",
        "ssl.keystore.location": "{}/me.pem",
        "ssl.key.password": "secret",
    },
    "a PKCS12 file": {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "{}/me.p12",
        "ssl.keystore.password": "secret",
    },
    "a PKCS12 file without its type": {
        "ssl.keystore.location": "{}/me.p12",
        "ssl.keystore.password": "secret",
    },
    "PEM in the settings": {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": ISSUED.chain_pem(),
        "ssl.keystore.key": ISSUED.key_pem(),
    },
    "PEM in the settings without its type": {
        "ssl.keystore.certificate.chain": ISSUED.chain_pem().replace("\n", " "),
        "ssl.keystore.key": ISSUED.key_pem("secret"),
        "ssl.key.password": "secret",
    },
}
TRUST: dict[str, dict[str, str]] = {
    "a PEM file": {"ssl.truststore.type": "PEM", "ssl.truststore.location": "{}/ca.pem"},
    "a PKCS12 file": {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": "{}/ca.p12",
        "ssl.truststore.password": "secret",
    },
    "PEM in the settings": {"ssl.truststore.certificates": AUTHORITY.pem()},
}


@pytest.mark.parametrize("trust", TRUST)
@pytest.mark.parametrize("key", KEYS)
def test_every_client_gets_the_same_key_and_trust_from_every_kind_of_store(
    key: str, trust: str, stores: Path
) -> None:
    given = {
        "bootstrap.servers": "a:1",
        "security.protocol": "ssl",
        **{name: text.format(stores) for name, text in {**KEYS[key], **TRUST[trust]}.items()},
    }
    for translate in (clients.admin, clients.consumer, clients.producer):
        settings = translate(given).settings
        assert settings["security.protocol"] == "SSL"
        key_pem = load_pem_private_key(str(settings["ssl.key.pem"]).encode(), None)
        assert key_pem.private_numbers() == ISSUED.key.private_numbers()  # type: ignore[union-attr]
        assert settings["ssl.certificate.pem"] == ISSUED.chain_pem().strip()
        assert settings["ssl.ca.pem"] == AUTHORITY.pem().strip()
        assert not any(name.endswith(("location", "password")) for name in settings)
    member = pickle.loads(pickle.dumps(clients.member(given)))  # it may travel to a stage
    assert "PRIVATE" not in repr(member)
    arguments = member.arguments()
    assert arguments["security_protocol"] == "SSL"
    context = arguments["ssl_context"]
    assert [ca["subject"] for ca in context.get_ca_certs()] == [((("commonName", "authority"),),)]
    assert context.check_hostname


SECURITY: list[tuple[dict[str, str], ClientSettings]] = [
    ({"security.protocol": "SSL"}, {"ssl.endpoint.identification.algorithm": "https"}),
    (
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""},
        {"ssl.endpoint.identification.algorithm": "none"},
    ),
    (
        {
            "security.protocol": "SSL",
            "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,"
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        },
        {
            "ssl.endpoint.identification.algorithm": "https",
            "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
        },
    ),
    ({"security.protocol": "sasl_plaintext", **LOGIN}, ACCOUNT),
    (
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "x.PlainLoginModule required username=me password='a b';",
        },
        {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "a b"},
    ),
    # As in Java, what the protocol does not use is not read.
    ({"security.protocol": "PLAINTEXT", "ssl.keystore.location": "/no.jks", **LOGIN}, {}),
    ({"ssl.truststore.location": "/no.jks", "sasl.jaas.config": "nothing"}, {}),
]


@pytest.mark.parametrize(("java", "settings"), SECURITY)
def test_security_settings_are_translated(java: dict[str, str], settings: ClientSettings) -> None:
    protocol = {name: text.upper() for name, text in java.items() if name == "security.protocol"}
    assert clients.admin(java) == clients.Translated({**ALL, **protocol, **settings})


BACKOFFS: list[tuple[dict[str, str], int | str]] = [
    ({}, 1_000),
    ({"reconnect.backoff.ms": "70"}, 1_000),
    ({"reconnect.backoff.ms": "5000"}, 5_000),
    ({"reconnect.backoff.ms": "70", "reconnect.backoff.max.ms": "90"}, 90),
]


@pytest.mark.parametrize(("java", "most"), BACKOFFS)
def test_a_broker_that_is_back_is_found_as_soon_as_by_java(
    java: dict[str, str], most: int | str
) -> None:
    for client in (clients.producer, clients.consumer, clients.admin):
        assert client(java).settings["reconnect.backoff.max.ms"] == most
    member = clients.member({"bootstrap.servers": "a:1", **java}).settings
    assert member["reconnect_backoff_max_ms"] == int(most)


SSL = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
REFUSED = [
    ({**SSL, "ssl.truststore.location": "{}/none"}, "ssl.truststore.location", "cannot be read"),
    ({**SSL, "ssl.keystore.location": "{}/ca.jks"}, "ssl.keystore.location", "keytool"),
    ({**SSL, "ssl.keystore.location": "{}/me.pem"}, "ssl.keystore.location", "set ssl.keystore.t"),
    ({**SSL, "ssl.keystore.key": "secret"}, "ssl.keystore.key", "certificate.chain is required"),
    ({**SSL, "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols", "no supported version"),
    ({**SSL, "ssl.protocol": "TLSv9"}, "ssl.protocol", "must be one of"),
    ({**SSL, "ssl.cipher.suites": "ROT13"}, "ssl.cipher.suites", "none of these can be used"),
    (
        {**SSL, "ssl.endpoint.identification.algorithm": "ldap"},
        "ssl.endpoint.identification.algorithm",
        "must be https",
    ),
    (
        {**SASL, "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
        "sasl.jaas.config",
        "only PLAIN and SCRAM logins are supported",
    ),
    (SASL, "sasl.jaas.config", "only PLAIN and SCRAM logins are supported"),
    ({"security.protocol": "SASL_SSL"}, "sasl.mechanism", "GSSAPI"),
    ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism", "support only PLAIN"),
    ({"security.protocol": "TLS"}, "security.protocol", "String must be one of"),
    ({"request.timeout.ms": "soon"}, "request.timeout.ms", "soon"),
]


@pytest.mark.parametrize(("java", "setting", "words"), REFUSED)
def test_settings_without_a_translation_are_refused_by_name(
    java: dict[str, str], setting: str, words: str, stores: Path
) -> None:
    (stores / "ca.jks").write_bytes(bytes.fromhex("feedfeed00000002"))
    given = {name: text.format(stores) for name, text in java.items()}
    for translate in (clients.member, clients.admin, clients.producer, clients.consumer):
        with pytest.raises(ConfigInvalid) as refused:
            translate({"bootstrap.servers": "a:1", **given})
        assert f"for configuration {setting}: " in str(refused.value)
        assert words in str(refused.value)


def test_nan_is_refused_by_its_own_name() -> None:
    for setting in ("linger.ms", "buffer.memory"):
        with pytest.raises(ConfigInvalid, match=f"Invalid value x for configuration {setting}: "):
            clients.producer({setting: "x"})


def test_a_password_is_in_no_message() -> None:
    jaas = 'org.example.Login required password="hunter2";'
    with pytest.raises(ConfigInvalid) as refused:
        clients.admin({**SASL, "sasl.jaas.config": jaas})
    assert "hunter2" not in str(refused.value)


def test_membership_is_spelled_as_kafka_python_does() -> None:
    java = {
        "bootstrap.servers": "a:1, b:2",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="me" password="pw";',
        "request.timeout.ms": "1234",
        "acks": "all",
    }
    member = clients.member(java)
    assert member.arguments() == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "pw",
        "reconnect_backoff_max_ms": 1_000,
        "request_timeout_ms": 1234,
    }
    assert "pw" not in repr(member)
    secure = clients.member({**java, "security.protocol": "SASL_SSL"}).arguments()
    assert isinstance(secure["ssl_context"], ssl.SSLContext)
