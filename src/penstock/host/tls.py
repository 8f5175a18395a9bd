"""Java's `ssl.*` settings, as users write them, turned into Python's TLS contexts.

Stores are PEM, in a file or in the settings themselves, or PKCS12. Java's own formats are refused
with the command that converts them. Restrictions in settings (versions, cipher suites, client
certificates) are applied or refused, never ignored.

Python passes a private key to OpenSSL only in a file: it is encrypted with a temporary password,
readable by its owner alone, and deleted at once.
"""

from __future__ import annotations

import re
import secrets
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import certifi
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import (
    PrivateKeyTypes,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from penstock.config.define import HIDDEN, invalid
from penstock.errors import ConfigInvalid
from penstock.host import key_stores
from penstock.host.key_stores import JavaStore, KeyStore

VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
"""The supported versions; older ones in a list are ignored, as in current Java versions."""

_CONTEXTS: Final = ("TLS", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3", "SSL", "SSLv2", "SSLv3")
"""Values of Java's `ssl.protocol`. The versions in use are those of `ssl.enabled.protocols`."""

CLIENT_AUTH: Final[Mapping[str, ssl.VerifyMode]] = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

_NOT_STORES: Final = (
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
)

_KEY_EXCHANGES: Final[Mapping[str, str]] = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_CIPHERS: Final[Mapping[str, str]] = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
}
# Only some combinations exist; OpenSSL does not know the names of the others.
CIPHER_SUITES: Final[Mapping[str, str]] = {
    f"TLS_{exchange}_WITH_{cipher}": _KEY_EXCHANGES[exchange] + _CIPHERS[cipher]
    for exchange, ciphers in (
        ("ECDHE_ECDSA", [name for name in _CIPHERS if name != "AES_256_CBC_SHA256"]),
        ("ECDHE_RSA", [name for name in _CIPHERS if name != "AES_256_CBC_SHA256"]),
        ("DHE_RSA", [name for name in _CIPHERS if name != "AES_256_CBC_SHA384"]),
        (
            "RSA",
            [n for n in _CIPHERS if n not in ("AES_256_CBC_SHA384", "CHACHA20_POLY1305_SHA256")],
        ),
    )
    for cipher in ciphers
}
"""Java's name (which is IANA's) of each TLS 1.2 cipher suite, and OpenSSL's."""

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True, repr=False)
class TlsSettings:
    """The `ssl.*` settings of one server or client, without the prefix they have in the file."""

    settings: Mapping[str, str]
    prefix: str = ""  # of the settings' names in messages

    def name(self, setting: str) -> str:
        """The setting's whole name."""
        return self.prefix + setting

    def text(self, setting: str) -> str | None:
        """The setting's value; None if not set or empty."""
        return self.settings.get(setting, "").strip() or None

    def names(self, setting: str, default: str) -> list[str]:
        """The entries of a list."""
        text = self.settings.get(setting, default)
        return [entry.strip() for entry in text.split(",") if entry.strip()]

    def refusal(self, setting: str, text: str, *, secret: bool = False) -> ConfigInvalid:
        """The error about the value of a setting."""
        value = HIDDEN if secret else self.text(setting)
        return ConfigInvalid([invalid(self.name(setting), value, text)])


@dataclass(frozen=True, slots=True, repr=False)
class _Identity:
    """The private key and its certificate chain, the key's own certificate first."""

    key: PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]


def server_context(tls: TlsSettings) -> ssl.SSLContext:
    """The TLS context of a server. Raises ConfigInvalid, naming the setting; also without a key
    store."""
    identity = _identity(tls)
    if identity is None:
        raise ConfigInvalid(
            [
                f"An https listener needs a key and its certificate: set "
                f"{tls.name('ssl.keystore.location')} to a PEM or PKCS12 file (and "
                f"{tls.name('ssl.keystore.type')} to PEM or PKCS12)."
            ]
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, tls)
    _show(context, identity, tls)
    mode = tls.text("ssl.client.auth") or "none"
    if mode not in CLIENT_AUTH:
        allowed = ", ".join(sorted(CLIENT_AUTH))
        raise tls.refusal("ssl.client.auth", f"String must be one of: {allowed}")
    context.verify_mode = CLIENT_AUTH[mode]
    if context.verify_mode != ssl.CERT_NONE:
        # Kafka Connect's server uses its key store in place of a missing trust store.
        _trust(context, tls, identity)
    return context


def client_context(tls: TlsSettings, *, trusts_itself: bool = False) -> ssl.SSLContext:
    """The TLS context of a client, with its own certificate if there is one. Raises ConfigInvalid,
    naming the setting.

    Without a trust store it trusts the system's issuers, or, when it `trusts_itself` and has a
    certificate, only that one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, tls)
    identity = _identity(tls)
    if identity is not None:
        _show(context, identity, tls)
    _trust(context, tls, identity if trusts_itself else None)
    name_check = tls.settings.get("ssl.endpoint.identification.algorithm", "https").strip()
    if name_check.lower() not in ("", "https"):
        text = "must be https (the server's name is checked), or empty (it is not)"
        raise tls.refusal("ssl.endpoint.identification.algorithm", text)
    context.check_hostname = bool(name_check)
    return context


def inlined(tls: TlsSettings) -> TlsSettings:
    """The settings of a client with its stores read: key, chain and trusted certificates are PEM in
    the settings themselves, the key without a password. Raises ConfigInvalid as `client_context`
    does."""
    client_context(tls)
    settings = {name: tls.settings[name] for name in _NOT_STORES if name in tls.settings}
    if (identity := _identity(tls)) is not None:
        settings["ssl.keystore.key"] = key_stores.pem_of_key(identity.key).decode()
        settings["ssl.keystore.certificate.chain"] = key_stores.pem_of(identity.chain).decode()
    if (trusted := _trusted(tls)) is not None:
        settings["ssl.truststore.certificates"] = key_stores.pem_of(trusted).decode()
    return TlsSettings(settings, tls.prefix)


def openssl_suites(tls: TlsSettings) -> list[str]:
    """OpenSSL's names of the cipher suites of TLSv1.2 that may be used; empty: all."""
    names = tls.names("ssl.cipher.suites", "")
    return [CIPHER_SUITES[name] for name in names if name in CIPHER_SUITES]


def _restrict(context: ssl.SSLContext, tls: TlsSettings) -> None:
    protocol = tls.text("ssl.protocol")
    if protocol is not None and protocol not in _CONTEXTS:
        raise tls.refusal("ssl.protocol", f"must be one of {', '.join(_CONTEXTS)}")
    names = tls.names("ssl.enabled.protocols", ",".join(VERSIONS)) or list(VERSIONS)
    versions = {VERSIONS[name] for name in names if name in VERSIONS}
    if not versions:
        raise tls.refusal(
            "ssl.enabled.protocols",
            f"contains no supported version; supported: {', '.join(VERSIONS)}",
        )
    suites = tls.names("ssl.cipher.suites", "")
    if suites:
        versions = _restrict_suites(context, tls, suites, versions)
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _restrict_suites(
    context: ssl.SSLContext, tls: TlsSettings, suites: Sequence[str], versions: set[ssl.TLSVersion]
) -> set[ssl.TLSVersion]:
    """Allows these suites only, and returns the versions that have any.

    Unknown suites are ignored, as in Java: that allows less, not more.
    """
    newest = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.3"}
    usable: set[ssl.TLSVersion] = set()
    if ssl.TLSVersion.TLSv1_3 in versions and newest.intersection(suites):
        if not newest.issubset(suites):
            raise tls.refusal(
                "ssl.cipher.suites",
                "Python supports only all suites of TLSv1.3 together "
                f"({', '.join(sorted(newest))}): list all of them, or remove TLSv1.3 from "
                f"{tls.name('ssl.enabled.protocols')}",
            )
        usable.add(ssl.TLSVersion.TLSv1_3)
    known = [CIPHER_SUITES[name] for name in suites if name in CIPHER_SUITES]
    if ssl.TLSVersion.TLSv1_2 in versions and known:
        try:
            context.set_ciphers(":".join(known))
            usable.add(ssl.TLSVersion.TLSv1_2)
        except ssl.SSLError:
            pass  # this build of OpenSSL has none of them
    if not usable:
        raise tls.refusal(
            "ssl.cipher.suites",
            "none of these can be used with the versions in "
            f"{tls.name('ssl.enabled.protocols')}; use the names that Java uses, such as "
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        )
    return usable


def _identity(tls: TlsSettings) -> _Identity | None:
    key, chain = tls.text("ssl.keystore.key"), tls.text("ssl.keystore.certificate.chain")
    location = tls.text("ssl.keystore.location")
    if key is None and chain is None:
        return None if location is None else _stored_identity(tls, location)
    _only_inline(tls, "ssl.keystore", ("ssl.keystore.key", "ssl.keystore.certificate.chain"))
    if key is None or chain is None:
        present, missing = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if key is None:
            present, missing = missing, present
        raise tls.refusal(
            present, f"{tls.name(missing)} is required with it and is not set", secret=True
        )
    return _Identity(
        _pem_key(tls, key, "ssl.keystore.key"),
        tuple(_pem_certificates(tls, chain, "ssl.keystore.certificate.chain")),
    )


def _stored_identity(tls: TlsSettings, location: str) -> _Identity:
    setting = "ssl.keystore.location"
    data = _read(tls, setting)
    if _kind(tls, "ssl.keystore", data) == "PEM":
        text = data.decode("latin-1")
        return _Identity(_pem_key(tls, text, setting), tuple(_pem_certificates(tls, text, setting)))
    store = _pkcs12(tls, "ssl.keystore", data)
    if store.key is None or store.own is None:
        raise tls.refusal(setting, "it does not contain a key with its certificate")
    return _Identity(store.key, store.certificates)


def _show(context: ssl.SSLContext, identity: _Identity, tls: TlsSettings) -> None:
    """Loads the key and its chain into the context."""
    setting = "ssl.keystore.location"
    if tls.text(setting) is None:
        setting = "ssl.keystore.certificate.chain"
    secret = setting != "ssl.keystore.location"
    if identity.chain[0].public_key() != identity.key.public_key():
        text = "the first certificate is not that of the key; put that one first"
        raise tls.refusal(setting, text, secret=secret)
    password = secrets.token_bytes(32).hex()
    pem = identity.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
    )
    pem += key_stores.pem_of(identity.chain)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # mode 0600
        file.write(pem)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except OSError as cause:
            text = f"TLS cannot use the certificate: {cause}"
            raise tls.refusal(setting, text, secret=secret) from cause


def _trust(context: ssl.SSLContext, tls: TlsSettings, identity: _Identity | None) -> None:
    """Trusts the certificates of the trust store; without one, its own certificate; without both,
    the system's issuers."""
    trusted = _trusted(tls)
    if trusted is None and identity is not None:
        # Not the rest of the chain: that would trust every certificate of its issuer.
        trusted = [identity.chain[0]]
    if trusted is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH
            if context.protocol == ssl.PROTOCOL_TLS_SERVER
            else ssl.Purpose.SERVER_AUTH
        )
        context.load_verify_locations(certifi.where())
        return
    # As in Java, a certificate in the store is trusted regardless of its issuer.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=key_stores.pem_of(trusted).decode())


def _trusted(tls: TlsSettings) -> list[x509.Certificate] | None:
    setting = "ssl.truststore.certificates"
    inline = tls.text(setting)
    if inline is not None:
        _only_inline(tls, "ssl.truststore", (setting,))
        return _pem_certificates(tls, inline, setting)
    setting = "ssl.truststore.location"
    if tls.text(setting) is None:
        return None
    data = _read(tls, setting)
    if _kind(tls, "ssl.truststore", data) == "PEM":
        return _pem_certificates(tls, data.decode("latin-1"), setting)
    store = _pkcs12(tls, "ssl.truststore", data)
    if not store.certificates:
        raise tls.refusal(setting, "it does not contain a certificate")
    return list(store.certificates)


def _read(tls: TlsSettings, setting: str) -> bytes:
    try:
        return Path(tls.text(setting) or "").read_bytes()
    except OSError as cause:
        raise tls.refusal(setting, f"the file cannot be read: {cause.strerror}") from cause


def _kind(tls: TlsSettings, store: str, data: bytes) -> str:
    """PEM or PKCS12, from the store's type and the contents of the file."""
    setting = f"{store}.type"
    kind = (tls.text(setting) or "JKS").upper()
    location = tls.text(f"{store}.location")
    try:
        key_stores.refuse_java_store(data, location or "")
    except JavaStore as refused:
        raise tls.refusal(
            f"{store}.location",
            f"only Java can read this store. Convert it with '{refused.command}', name the new "
            f"file here and set {tls.name(setting)} to PKCS12",
        ) from refused
    if kind == "PEM":
        return kind
    if kind not in ("PKCS12", "JKS"):
        raise tls.refusal(setting, "must be PEM or PKCS12")
    if key_stores.is_pem(data):
        raise tls.refusal(f"{store}.location", f"the file is PEM: set {tls.name(setting)} to PEM")
    # Java opens a PKCS12 file as JKS, too; keytool has written PKCS12 since Java 9.
    return "PKCS12"


def _pkcs12(tls: TlsSettings, store: str, data: bytes) -> KeyStore:
    location, password = tls.text(f"{store}.location") or "", tls.text(f"{store}.password")
    try:
        return key_stores.opened(data, location, password)
    except ValueError as cause:
        text = f"it cannot be opened as PKCS12 with {tls.name(f'{store}.password')} ({cause})"
        raise tls.refusal(f"{store}.location", text) from cause


def _only_inline(tls: TlsSettings, store: str, inline: Sequence[str]) -> None:
    """Refuses settings that contradict PEM in the settings themselves."""
    names = " and ".join(map(tls.name, inline))
    if tls.text(f"{store}.location") is not None:
        raise tls.refusal(f"{store}.location", f"set either the file or {names}")
    kind = tls.text(f"{store}.type")
    if kind is not None and kind.upper() != "PEM":
        raise tls.refusal(f"{store}.type", f"must be PEM with {names}")


def _blocks(text: str) -> list[tuple[str, bytes]]:
    """The PEM blocks with their labels. A block may be one long line, as in properties files."""
    return [(match[1], _rewrapped(match[1], match[2])) for match in _BLOCK.finditer(text)]


def _rewrapped(label: str, body: str) -> bytes:
    if ":" not in body:  # otherwise it has header lines
        code = "".join(body.split())
        body = "".join(f"{code[at : at + 64]}\n" for at in range(0, len(code), 64))
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----\n".encode()


def _pem_key(tls: TlsSettings, text: str, setting: str) -> PrivateKeyTypes:
    secret = setting != "ssl.keystore.location"
    pem = next((pem for label, pem in _blocks(text) if label.endswith("PRIVATE KEY")), None)
    if pem is None:
        raise tls.refusal(setting, "it does not contain a private key in PEM", secret=secret)
    password = None
    if b"ENCRYPTED" in pem:
        password = tls.text("ssl.key.password") or ""
        if not password:
            raise tls.refusal(
                setting, f"the key is encrypted: set {tls.name('ssl.key.password')}", secret=secret
            )
    try:
        return load_pem_private_key(pem, None if password is None else password.encode())
    except (ValueError, TypeError) as cause:
        advice = f"; check {tls.name('ssl.key.password')}" if password else ""
        raise tls.refusal(setting, f"the key cannot be read{advice}", secret=secret) from cause


def _pem_certificates(tls: TlsSettings, text: str, setting: str) -> list[x509.Certificate]:
    secret = not setting.endswith(".location")
    certificates = [pem for label, pem in _blocks(text) if label == "CERTIFICATE"]
    if not certificates:
        raise tls.refusal(setting, "it does not contain a certificate in PEM", secret=secret)
    try:
        return [x509.load_pem_x509_certificate(pem) for pem in certificates]
    except ValueError as cause:
        text = f"a certificate cannot be read: {cause}"
        raise tls.refusal(setting, text, secret=secret) from cause
