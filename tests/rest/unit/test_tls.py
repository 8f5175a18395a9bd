"""TLS settings of the REST server and of requests between workers: what they mean, and what
is refused. Handshakes run in memory."""

from __future__ import annotations

import ssl
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.config.define import Config
from penstock.config.worker import parse_distributed
from penstock.errors import ConfigInvalid
from penstock.host.tls import CIPHER_SUITES, TlsSettings, client_context, server_context
from penstock.rest.tls import ADMIN, MAIN, forwarding, listening, settings
from tests.servers.certificates import Authority, Issued

PASSWORD = "store-pass"
KEY_PASSWORD = "key-pass"
JKS = b"\xfe\xed\xfe\xed\x00\x00\x00\x02" + bytes(40)


@dataclass(frozen=True)
class Folder:
    """The stores the tests read, and what is in them."""

    path: Path
    authority: Authority
    own: Issued
    stranger: Issued

    def __getitem__(self, name: str) -> str:
        return str(self.path / name)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    path = tmp_path_factory.mktemp("stores")
    authority, other = Authority(), Authority("other")
    own = authority.issue("own", "localhost", "127.0.0.1")
    stranger = other.issue("stranger", "localhost")
    (path / "own.pem").write_text(own.pem())
    (path / "locked.pem").write_text(own.pem(KEY_PASSWORD))
    (path / "own.p12").write_bytes(own.pkcs12(PASSWORD))
    (path / "trust.pem").write_text(authority.pem())
    (path / "trust.p12").write_bytes(authority.pkcs12(PASSWORD))
    (path / "swapped.pem").write_text(own.key_pem() + authority.pem() + own.chain_pem())
    (path / "broken.pem").write_text(
        own.key_pem() + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    )
    (path / "sibling.pem").write_text(authority.issue("sibling", "localhost").pem())
    (path / "stranger.pem").write_text(stranger.pem())
    (path / "own.jks").write_bytes(JKS)
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (path / "rsa.pem").write_text(authority.issue("rsa", "localhost", key=rsa_key).pem())
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    (path / "weak.pem").write_text(authority.issue("weak", "localhost", key=weak).pem())
    return Folder(path, authority, own, stranger)


def key_store(stores: Folder, name: str = "own.pem") -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": stores[name]}


def trust_store(stores: Folder, name: str = "trust.pem") -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": stores[name]}


@dataclass(frozen=True)
class Handshake:
    version: str | None
    suite: str
    shown: bool  # the client showed a certificate


def shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> Handshake:
    """Completes the handshake of both ends; raises what either raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(10):
        waiting = 0
        for end in (asking, serving):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting += 1
        if not waiting:
            cipher = asking.cipher()
            assert cipher is not None
            return Handshake(asking.version(), cipher[0], bool(serving.getpeercert(True)))
    raise AssertionError("the handshake came to no end")


Make = Callable[[Folder], dict[str, str]]

KEY_STORES: dict[str, Make] = {
    "PEM file": key_store,
    "PEM file, encrypted": lambda at: {
        **key_store(at, "locked.pem"),
        "ssl.key.password": KEY_PASSWORD,
    },
    "PKCS12": lambda at: {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": at["own.p12"],
        "ssl.keystore.password": PASSWORD,
    },
    "PKCS12 called JKS, which is the default": lambda at: {
        "ssl.keystore.location": at["own.p12"],
        "ssl.keystore.password": PASSWORD,
    },
    "inline": lambda at: {
        "ssl.keystore.key": at.own.key_pem(),
        "ssl.keystore.certificate.chain": at.own.chain_pem(),
    },
    "inline, encrypted, each on one line": lambda at: {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": at.own.key_pem(KEY_PASSWORD).replace("\n", " "),
        "ssl.keystore.certificate.chain": at.own.chain_pem().replace("\n", " "),
        "ssl.key.password": KEY_PASSWORD,
    },
    "a password for a key that needs none": lambda at: {
        **key_store(at),
        "ssl.key.password": KEY_PASSWORD,
    },
}
TRUST_STORES: dict[str, Make] = {
    "PEM file": trust_store,
    "PKCS12": lambda at: {
        "ssl.truststore.type": "pkcs12",
        "ssl.truststore.location": at["trust.p12"],
        "ssl.truststore.password": PASSWORD,
    },
    "inline": lambda at: {"ssl.truststore.certificates": at.authority.pem()},
}


@pytest.mark.parametrize("make", KEY_STORES.values(), ids=KEY_STORES)
def test_a_key_store_shows_the_certificate_on_both_sides(stores: Folder, make: Make) -> None:
    tls = TlsSettings({**make(stores), **trust_store(stores), "ssl.client.auth": "required"})
    assert shake(server_context(tls), client_context(tls)).shown


@pytest.mark.parametrize("make", TRUST_STORES.values(), ids=TRUST_STORES)
def test_a_trust_store_says_whom_to_believe(stores: Folder, make: Make) -> None:
    client = client_context(TlsSettings(make(stores)))
    shake(server_context(TlsSettings(key_store(stores))), client)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_context(TlsSettings(key_store(stores, "stranger.pem"))), client)


def test_without_a_trust_store_the_own_certificate_is_trusted_but_not_its_siblings(
    stores: Folder,
) -> None:
    tls = TlsSettings({**key_store(stores), "ssl.client.auth": "required"})
    client = client_context(tls, trusts_itself=True)
    assert shake(server_context(tls), client).shown
    sibling = TlsSettings({**key_store(stores, "sibling.pem"), **trust_store(stores)})
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_context(sibling), client)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_context(tls), client_context(sibling))


@pytest.mark.parametrize("trusts_itself", [False, True])
def test_with_no_store_at_all_a_client_trusts_the_public_authorities(trusts_itself: bool) -> None:
    context = client_context(TlsSettings({}), trusts_itself=trusts_itself)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) > 10


def test_a_client_of_others_does_not_take_its_own_certificate_for_theirs(stores: Folder) -> None:
    tls = TlsSettings(key_store(stores))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_context(tls), client_context(tls))


INVALID: dict[str, tuple[Make, str]] = {
    "no key store": (
        trust_store,
        "An https listener needs a key and its certificate: set listeners.https.ssl.keystore."
        "location to a PEM or PKCS12 file",
    ),
    "JKS": (
        lambda at: {"ssl.keystore.location": at["own.jks"]},
        "location: only Java can read this store. Convert it with 'keytool -importkeystore "
        "-srckeystore {folder}/own.jks -destkeystore own.p12 -deststoretype PKCS12', name the new "
        "file here and set listeners.https.ssl.keystore.type to PKCS12",
    ),
    "a JKS trust store": (
        lambda at: {
            **key_store(at),
            "ssl.client.auth": "required",
            "ssl.truststore.location": at["own.jks"],
        },
        "configuration listeners.https.ssl.truststore.location: only Java can read this store.",
    ),
    "another type": (
        lambda at: {**key_store(at), "ssl.keystore.type": "BKS"},
        "Invalid value BKS for configuration listeners.https.ssl.keystore.type: must be PEM or",
    ),
    "PEM that is not said to be PEM": (
        lambda at: {"ssl.keystore.location": at["own.pem"]},
        "location: the file is PEM: set listeners.https.ssl.keystore.type to PEM",
    ),
    "no such file": (
        lambda at: key_store(at, "absent.pem"),
        "configuration listeners.https.ssl.keystore.location: the file cannot be read: No such",
    ),
    "a wrong store password": (
        lambda at: {
            "ssl.keystore.location": at["own.p12"],
            "ssl.keystore.password": "wrong",
        },
        "location: it cannot be opened as PKCS12 with listeners.https.ssl.keystore.password",
    ),
    "a trust store for a key store": (
        lambda at: {
            "ssl.keystore.location": at["trust.p12"],
            "ssl.keystore.password": PASSWORD,
        },
        "location: it does not contain a key with its certificate",
    ),
    "certificates without a key": (
        lambda at: key_store(at, "trust.pem"),
        "location: it does not contain a private key in PEM",
    ),
    "an encrypted key without its password": (
        lambda at: key_store(at, "locked.pem"),
        "location: the key is encrypted: set listeners.https.ssl.key.password",
    ),
    "a wrong key password": (
        lambda at: {**key_store(at, "locked.pem"), "ssl.key.password": "wrong"},
        "location: the key cannot be read; check listeners.https.ssl.key.password",
    ),
    "another certificate first": (
        lambda at: key_store(at, "swapped.pem"),
        "location: the first certificate is not that of the key; put that one first",
    ),
    "a broken certificate": (
        lambda at: key_store(at, "broken.pem"),
        "location: a certificate cannot be read: ",
    ),
    "a key OpenSSL finds too weak": (
        lambda at: key_store(at, "weak.pem"),
        "location: TLS cannot use the certificate: ",
    ),
    "an inline key alone": (
        lambda at: {"ssl.keystore.key": at.own.key_pem()},
        "Invalid value [hidden] for configuration listeners.https.ssl.keystore.key: "
        "listeners.https.ssl.keystore.certificate.chain is required with it and is not set",
    ),
    "an inline chain alone": (
        lambda at: {"ssl.keystore.certificate.chain": at.own.chain_pem()},
        "chain: listeners.https.ssl.keystore.key is required with it and is not set",
    ),
    "an inline key that is none": (
        lambda at: {
            "ssl.keystore.key": "secret text",
            "ssl.keystore.certificate.chain": at.own.chain_pem(),
        },
        "[hidden] for configuration listeners.https.ssl.keystore.key: it does not contain a",
    ),
    "inline and a file": (
        lambda at: {
            **key_store(at),
            "ssl.keystore.key": at.own.key_pem(),
            "ssl.keystore.certificate.chain": at.own.chain_pem(),
        },
        "location: set either the file or listeners.https.ssl.keystore.key and listeners.https.",
    ),
    "inline as PKCS12": (
        lambda at: {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.key": at.own.key_pem(),
            "ssl.keystore.certificate.chain": at.own.chain_pem(),
        },
        "type: must be PEM with listeners.https.ssl.keystore.key and listeners.https.",
    ),
    "an empty trust store": (
        lambda at: {
            **key_store(at),
            "ssl.client.auth": "required",
            "ssl.truststore.certificates": "nobody",
        },
        "[hidden] for configuration listeners.https.ssl.truststore.certificates: it does not cont",
    ),
    "a client auth there is not": (
        lambda at: {**key_store(at), "ssl.client.auth": "maybe"},
        "Invalid value maybe for configuration listeners.https.ssl.client.auth: String must be one "
        "of: none, requested, required",
    ),
    "no supported version": (
        lambda at: {**key_store(at), "ssl.enabled.protocols": "SSLv3,TLSv1.1"},
        "Invalid value SSLv3,TLSv1.1 for configuration listeners.https.ssl.enabled.protocols: "
        "contains no supported version; supported: TLSv1.2, TLSv1.3",
    ),
    "a protocol there is not": (
        lambda at: {**key_store(at), "ssl.protocol": "TLSv9"},
        "Invalid value TLSv9 for configuration listeners.https.ssl.protocol: must be one of TLS, ",
    ),
    "some suites of TLSv1.3": (
        lambda at: {**key_store(at), "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
        "listeners.https.ssl.cipher.suites: Python supports only all suites of TLSv1.3 together "
        "(TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256): list all "
        "of them, or remove TLSv1.3 from listeners.https.ssl.enabled.protocols",
    ),
    "no suite that is known": (
        lambda at: {**key_store(at), "ssl.cipher.suites": "TLS_FANCY,ECDHE-RSA-AES128-SHA"},
        "listeners.https.ssl.cipher.suites: none of these can be used with",
    ),
    "suites of a version that is off": (
        lambda at: {
            **key_store(at),
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        },
        "none of these can be used with the versions in listeners.https.ssl.enabled.protocols",
    ),
}


@pytest.mark.parametrize(("make", "text"), INVALID.values(), ids=INVALID)
def test_settings_that_cannot_be_used_are_refused_by_name(
    stores: Folder, make: Make, text: str
) -> None:
    given = make(stores)
    with pytest.raises(ConfigInvalid) as refused:
        server_context(TlsSettings(given, MAIN))
    message = str(refused.value)
    assert text.format(folder=stores.path) in message
    secret = ("ssl.keystore.key", "ssl.keystore.password", "ssl.key.password")
    assert not [name for name in secret if name in given and given[name] in message]


def test_a_check_of_names_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"ssl\.endpoint\.identification\.algorithm: must be"):
        client_context(TlsSettings({"ssl.endpoint.identification.algorithm": "LDAPS"}))


def test_no_key_is_left_where_others_could_read_it(
    stores: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, str]] = []
    load = ssl.SSLContext.load_cert_chain

    def watching(context: ssl.SSLContext, file: str, password: str) -> None:
        seen.append((stat.S_IMODE(Path(file).stat().st_mode), Path(file).read_text()))
        load(context, file, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watching)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server_context(TlsSettings(key_store(stores)))
    [(mode, text)] = seen
    assert mode == 0o600
    assert "BEGIN ENCRYPTED PRIVATE KEY" in text
    assert "BEGIN PRIVATE KEY" not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("auth", "client", "let_in"),
    [
        ("none", None, True),
        ("none", "sibling.pem", True),
        ("none", "stranger.pem", True),
        ("requested", None, True),
        ("requested", "sibling.pem", True),
        ("requested", "stranger.pem", False),
        ("required", None, False),
        ("required", "sibling.pem", True),
        ("required", "stranger.pem", False),
    ],
)
def test_client_auth(stores: Folder, auth: str, client: str | None, let_in: bool) -> None:
    server = server_context(
        TlsSettings({**key_store(stores), **trust_store(stores), "ssl.client.auth": auth})
    )
    own = {} if client is None else key_store(stores, client)
    asking = client_context(TlsSettings({**own, **trust_store(stores)}))
    if let_in:
        assert shake(server, asking).shown is (auth != "none" and client is not None)
    else:
        with pytest.raises(ssl.SSLError):
            shake(server, asking)


@pytest.mark.parametrize(("algorithm", "checked"), [(None, True), ("HTTPS", True), ("", False)])
def test_the_name_of_the_other_worker(stores: Folder, algorithm: str | None, checked: bool) -> None:
    given = trust_store(stores)
    if algorithm is not None:
        given["ssl.endpoint.identification.algorithm"] = algorithm
    server, client = (
        server_context(TlsSettings(key_store(stores))),
        client_context(TlsSettings(given)),
    )
    shake(server, client, "127.0.0.1")
    if checked:
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            shake(server, client, "elsewhere")
    else:
        shake(server, client, "elsewhere")


@pytest.mark.parametrize(
    ("protocols", "version"),
    [
        (None, "TLSv1.3"),
        ("", "TLSv1.3"),
        ("TLSv1.3,TLSv1.2", "TLSv1.3"),
        ("TLSv1.2", "TLSv1.2"),
        (" TLSv1.2 , TLSv1.1,TLSv1", "TLSv1.2"),
        ("TLSv1.3", "TLSv1.3"),
    ],
)
def test_versions(stores: Folder, protocols: str | None, version: str) -> None:
    given = key_store(stores) | {"ssl.protocol": "TLSv1.2"}  # does not restrict the versions
    if protocols is not None:
        given["ssl.enabled.protocols"] = protocols
    server = server_context(TlsSettings(given))
    assert shake(server, client_context(TlsSettings(trust_store(stores)))).version == version


def test_sides_without_a_common_version_do_not_talk(stores: Folder) -> None:
    server = server_context(TlsSettings({**key_store(stores), "ssl.enabled.protocols": "TLSv1.3"}))
    client = client_context(
        TlsSettings({**trust_store(stores), "ssl.enabled.protocols": "TLSv1.2"})
    )
    with pytest.raises(ssl.SSLError):
        shake(server, client)


NEWEST = "TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256"


@pytest.mark.parametrize(
    ("suites", "version", "suite"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLSv1.2", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_FANCY,TLS_RSA_WITH_AES_256_CBC_SHA256", "TLSv1.2", "AES256-SHA256"),
        (NEWEST, "TLSv1.3", None),
        (NEWEST + ",TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLSv1.3", None),
    ],
)
def test_cipher_suites(stores: Folder, suites: str, version: str, suite: str | None) -> None:
    server = server_context(
        TlsSettings({**key_store(stores, "rsa.pem"), "ssl.cipher.suites": suites})
    )
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=stores.authority.pem())
    client.set_ciphers("ALL")
    found = shake(server, client)
    assert found.version == version
    assert suite in (None, found.suite)


def test_a_server_of_the_newest_suites_alone_does_not_speak_the_version_before(
    stores: Folder,
) -> None:
    server = server_context(TlsSettings({**key_store(stores), "ssl.cipher.suites": NEWEST}))
    assert server.minimum_version == ssl.TLSVersion.TLSv1_3


# From IANA's registry of TLS cipher suites.
CODES = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": 0x002F,
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA": 0x0033,
    "TLS_RSA_WITH_AES_256_CBC_SHA": 0x0035,
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": 0x0039,
    "TLS_RSA_WITH_AES_128_CBC_SHA256": 0x003C,
    "TLS_RSA_WITH_AES_256_CBC_SHA256": 0x003D,
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": 0x0067,
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": 0x006B,
    "TLS_RSA_WITH_AES_128_GCM_SHA256": 0x009C,
    "TLS_RSA_WITH_AES_256_GCM_SHA384": 0x009D,
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": 0x009E,
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": 0x009F,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": 0xC009,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": 0xC00A,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": 0xC013,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": 0xC014,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": 0xC023,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": 0xC024,
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": 0xC027,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": 0xC028,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": 0xC02B,
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": 0xC02C,
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": 0xC02F,
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": 0xC030,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA8,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA9,
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCAA,
}


def test_every_suite_is_the_one_that_java_means() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL")
    codes = {each["name"]: each["id"] & 0xFFFF for each in context.get_ciphers()}
    assert {java: codes[name] for java, name in CIPHER_SUITES.items()} == CODES


def worker(**props: str) -> Config:
    given = {name.replace("_", "."): text for name, text in props.items()}
    return parse_distributed(
        {
            "bootstrap.servers": "kafka:9092",
            "group.id": "connect",
            "config.storage.topic": "configs",
            "offset.storage.topic": "offsets",
            "status.storage.topic": "statuses",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **given,
        }
    )


@pytest.mark.parametrize(
    ("props", "prefix", "found", "name"),
    [
        ({"ssl_protocol": "TLS"}, MAIN, {"ssl.protocol": "TLS"}, "ssl.protocol"),
        ({"ssl_protocol": "TLS"}, ADMIN, {"ssl.protocol": "TLS"}, "ssl.protocol"),
        (
            {"ssl_protocol": "TLS", "listeners_https_ssl_client_auth": "required"},
            MAIN,
            {"ssl.client.auth": "required"},
            "listeners.https.ssl.protocol",
        ),
        (
            {"ssl_protocol": "TLS", "listeners_https_ssl_client_auth": "required"},
            ADMIN,
            {"ssl.protocol": "TLS"},
            "ssl.protocol",
        ),
        (
            {"admin_listeners_https_ssl_protocol": "TLSv1.3"},
            ADMIN,
            {"ssl.protocol": "TLSv1.3"},
            "admin.listeners.https.ssl.protocol",
        ),
        ({}, MAIN, {}, "listeners.https.ssl.protocol"),
    ],
)
def test_the_settings_with_the_prefix_or_else_the_plain_ones(
    props: dict[str, str], prefix: str, found: dict[str, str], name: str
) -> None:
    tls = settings(worker(**props), prefix)
    assert tls.settings == found
    assert tls.name("ssl.protocol") == name


def test_an_https_listener_without_a_key_says_what_to_set() -> None:
    with pytest.raises(ConfigInvalid, match=r"set listeners\.https\.ssl\.keystore\.location to"):
        listening(worker())
    with pytest.raises(ConfigInvalid, match=r"set ssl\.keystore\.location to"):
        listening(worker(ssl_protocol="TLS"))


@pytest.mark.parametrize(
    "listeners", ["https://127.0.0.1:0", "http://127.0.0.1:0,https://127.0.0.1:0"]
)
def test_a_worker_that_speaks_https_finds_a_bad_store_at_once(
    stores: Folder, listeners: str
) -> None:
    with pytest.raises(ConfigInvalid, match=r"ssl\.truststore\.location"):
        forwarding(worker(listeners=listeners, ssl_truststore_location=stores["own.jks"]))


def test_one_that_does_not_leaves_the_stores_of_the_kafka_clients_alone(stores: Folder) -> None:
    make = forwarding(
        worker(listeners="http://127.0.0.1:0", ssl_truststore_location=stores["own.jks"])
    )
    with pytest.raises(ConfigInvalid, match=r"ssl\.truststore\.location"):
        make()


def test_requests_to_other_workers_show_the_listeners_certificate(stores: Folder) -> None:
    given = {**key_store(stores), **trust_store(stores), "ssl.client.auth": "required"}
    config = worker(
        listeners="https://127.0.0.1:0", **{f"listeners.https.{n}": t for n, t in given.items()}
    )
    assert shake(listening(config), forwarding(config)(), "127.0.0.1").shown


def test_workers_with_one_certificate_need_no_trust_store(stores: Folder) -> None:
    given = {**key_store(stores), "ssl.client.auth": "required"}
    config = worker(listeners="https://127.0.0.1:0", **given)
    assert shake(listening(config), forwarding(config)(), "127.0.0.1").shown
