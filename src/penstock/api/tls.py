"""Java's `ssl.*` settings as a Python TLS context, of a client or a server, and Java's key stores,
for connectors that are configured with them."""

from collections.abc import Sequence
from typing import Final

from penstock.config.declare import Group
from penstock.config.define import HIGH, LOW, MEDIUM, Importance, Key
from penstock.host.key_stores import JavaStore, KeyStore, is_pem, opened
from penstock.host.tls import TlsSettings, client_context, inlined, server_context

__all__ = [
    "JavaStore",
    "KeyStore",
    "TlsSettings",
    "client_context",
    "inlined",
    "is_pem",
    "opened",
    "server_context",
    "ssl_keys",
]

_TEXTS: Final[Sequence[tuple[str, Importance, str]]] = (
    ("ssl.protocol", MEDIUM, "The TLS context, as Java calls it."),
    ("ssl.enabled.protocols", MEDIUM, "The versions that are used: TLSv1.2, TLSv1.3."),
    ("ssl.cipher.suites", LOW, "The cipher suites that are used, by Java's names."),
    ("ssl.keystore.type", MEDIUM, "The format of the key store: PEM or PKCS12."),
    ("ssl.keystore.location", HIGH, "The client's key and certificate, for mutual TLS."),
    ("ssl.truststore.type", MEDIUM, "The format of the trust store: PEM or PKCS12."),
    ("ssl.truststore.location", HIGH, "The certificates that are trusted; else the system's."),
    (
        "ssl.endpoint.identification.algorithm",
        LOW,
        "https: the server's name is checked; empty: it is not.",
    ),
)
_SECRETS: Final[Sequence[tuple[str, str]]] = (
    ("ssl.keystore.password", "The password of the key store."),
    ("ssl.key.password", "The password of the key."),
    ("ssl.truststore.password", "The password of the trust store."),
    ("ssl.keystore.key", "The client's key, in PEM."),
    ("ssl.keystore.certificate.chain", "The client's certificates, in PEM."),
    ("ssl.truststore.certificates", "The certificates that are trusted, in PEM."),
)


def ssl_keys(prefix: str = "") -> tuple[Key[object], ...]:
    """Java's `ssl.*` settings of a client, under a prefix; none has a default."""
    tls = Group("TLS", numbered=False)
    for name, importance, doc in _TEXTS:
        tls.text(prefix + name, None, doc, importance=importance)
    for name, doc in _SECRETS:
        tls.secret(prefix + name, None, doc, importance=HIGH)
    return tuple(tls)
