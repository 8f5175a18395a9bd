"""How a client connects: security protocol, login and TLS, for librdkafka and kafka-python.

TLS settings are read by `host.tls`, the same reader as for all other clients and servers: stores
are read once, here, and both clients get their contents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.config.define import HIDDEN, invalid
from penstock.errors import ConfigInvalid
from penstock.host.tls import TlsSettings, inlined, openssl_suites
from penstock.kafka.group_members import Member

ClientSettings = dict[str, str | int | float | bool]

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_OPTION: Final = re.compile(
    r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([A-Za-z_$][\w$.-]*))"""
)
_PEM: Final[Mapping[str, str]] = {
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}


def connection(java: Mapping[str, str]) -> ClientSettings:
    """The security settings in librdkafka's names. Raises ConfigInvalid, naming the setting."""
    protocol = _protocol(java)
    out: ClientSettings = {}
    if "security.protocol" in java:
        out["security.protocol"] = protocol
    if protocol.startswith("SASL_"):
        mechanism, username, password = _login(java)
        out["sasl.mechanism"] = mechanism
        out["sasl.username"], out["sasl.password"] = username, password
    if protocol.endswith("SSL"):
        tls = inlined(TlsSettings(java))
        for name, pem in _PEM.items():
            if (text := tls.text(name)) is not None:
                out[pem] = text
        if suites := openssl_suites(tls):
            out["ssl.cipher.suites"] = ":".join(suites)
        checked = java.get("ssl.endpoint.identification.algorithm", "https").strip()
        out["ssl.endpoint.identification.algorithm"] = "https" if checked else "none"
    return out


def secured(java: Mapping[str, str], settings: Mapping[str, object]) -> Member:
    """kafka-python's settings with the security settings added. Raises ConfigInvalid, naming the
    setting."""
    protocol = _protocol(java)
    out = dict(settings)
    if "security.protocol" in java:
        out["security_protocol"] = protocol
    if protocol.startswith("SASL_"):
        mechanism, username, password = _login(java)
        out["sasl_mechanism"] = mechanism
        out["sasl_plain_username"], out["sasl_plain_password"] = username, password
    return Member(out, inlined(TlsSettings(java)) if protocol.endswith("SSL") else None)


def _protocol(java: Mapping[str, str]) -> str:
    return java.get("security.protocol", "PLAINTEXT").strip().upper()


def _login(java: Mapping[str, str]) -> tuple[str, str, str]:
    """Mechanism, user name and password."""
    mechanism = java.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        text = f"this worker's clients support only {', '.join(MECHANISMS)}"
        raise ConfigInvalid([invalid("sasl.mechanism", mechanism, text)])
    jaas = java.get("sasl.jaas.config")
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _OPTION.findall(jaas or "")
    }
    if "username" not in options or "password" not in options:
        text = (
            'no username="…" and password="…" in it; only PLAIN and SCRAM logins are supported by '
            "this worker's clients."
        )
        raise ConfigInvalid([invalid("sasl.jaas.config", jaas and HIDDEN, text)])
    return mechanism, options["username"], options["password"]
