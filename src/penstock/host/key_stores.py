"""Reads Java's key stores: keys with their certificates, and trusted certificates.

PKCS12 is read here, for every client, server and connector. Java's own formats are recognized and
refused with the command that converts them: a reader for them belongs in `opened`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

_JAVA_STORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS
_PEM: Final = b"-----BEGIN "


class JavaStore(ValueError):
    """Only Java can read a store; `command` converts it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.new_path = f"{Path(path).stem}.p12"
        self.command = (
            f"keytool -importkeystore -srckeystore {path} -destkeystore {self.new_path} "
            "-deststoretype PKCS12"
        )
        super().__init__(f"only Java can read this store; convert it with: {self.command}")


@dataclass(frozen=True, slots=True, repr=False)
class KeyStore:
    """The contents of a store. `own`: the certificate of the key."""

    key: PrivateKeyTypes | None
    own: x509.Certificate | None
    others: tuple[x509.Certificate, ...]

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """All certificates, the key's own first."""
        return self.others if self.own is None else (self.own, *self.others)

    def key_pem(self) -> bytes:
        """The key, without a password; empty if there is none."""
        return b"" if self.key is None else pem_of_key(self.key)

    def certificates_pem(self) -> bytes:
        return pem_of(self.certificates)


def is_pem(data: bytes) -> bool:
    """Whether a file is PEM, and not a store."""
    return _PEM in data


def refuse_java_store(data: bytes, path: str) -> None:
    """Raises JavaStore if only Java can read the contents of a file."""
    if data.startswith(_JAVA_STORES):
        raise JavaStore(path)


def opened(data: bytes, path: str, password: str | None) -> KeyStore:
    """The contents of a store, read from `path`. Raises JavaStore, and ValueError if it cannot be
    opened with the password."""
    refuse_java_store(data, path)
    store = pkcs12.load_pkcs12(data, password.encode() if password else None)
    own = None if store.cert is None else store.cert.certificate
    others = tuple(additional.certificate for additional in store.additional_certs)
    return KeyStore(store.key, own, others)


def pem_of(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def pem_of_key(key: PrivateKeyTypes) -> bytes:
    """The key in PEM, without a password."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
