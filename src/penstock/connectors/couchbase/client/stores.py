"""Java's key stores as the PEM files that the SDK reads.

PEM files are used in place. PKCS12 is written as PEM into a folder that only this user can
read, and that is deleted when the connection ends. Java's own formats are refused with the command
that converts them.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from penstock.api import ConfigInvalid
from penstock.api.settings import Secret, invalid
from penstock.connectors.couchbase.client.access import Tls

_JAVA_STORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS


@dataclass(frozen=True, slots=True)
class PemFiles:
    """Paths; empty for a missing file."""

    trusted: str = ""
    certificate: str = ""
    key: str = ""


def pem_files(tls: Tls, stack: ExitStack) -> PemFiles:
    """The files of a configuration. Raises ConfigInvalid with the setting's name."""
    trusted, certificate, key = tls.trusted, "", ""
    if trusted:
        content = _read(trusted, tls.trusted_setting)
        if not _is_pem(content):
            store = _pkcs12(content, trusted, tls.trusted_password, tls.trusted_setting)
            trusted = _written(_chain(store), stack)
    if tls.client:
        content = _read(tls.client, tls.client_setting)
        if _is_pem(content):
            certificate = key = tls.client
        else:
            store = _pkcs12(content, tls.client, tls.client_password, tls.client_setting)
            if store.key is None:
                raise _refused(tls.client_setting, tls.client, "It has no private key")
            certificate = _written(_chain(store), stack)
            key = _written(
                store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), stack
            )
    return PemFiles(trusted, certificate, key)


def _is_pem(content: bytes) -> bool:
    return b"-----BEGIN " in content


def _read(path: str, setting: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _refused(setting, path, f"Cannot read the file: {error}") from error


def _pkcs12(
    content: bytes, path: str, password: Secret, setting: str
) -> pkcs12.PKCS12KeyAndCertificates:
    if content.startswith(_JAVA_STORES):
        raise _refused(
            setting,
            path,
            "It is a Java key store; convert it with: keytool -importkeystore -srckeystore "
            f"{path} -destkeystore store.p12 -deststoretype PKCS12",
        )
    try:
        return pkcs12.load_pkcs12(content, password.value.encode() or None)
    except ValueError as error:
        raise _refused(
            setting, path, f"It is neither PEM nor PKCS12 with this password: {error}"
        ) from error


def _chain(store: pkcs12.PKCS12KeyAndCertificates) -> bytes:
    first = () if store.cert is None else (store.cert,)
    return b"".join(
        entry.certificate.public_bytes(Encoding.PEM) for entry in (*first, *store.additional_certs)
    )


def _written(content: bytes, stack: ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-couchbase-"))
    path = Path(folder) / "store.pem"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return str(path)


def _refused(setting: str, path: str, text: str) -> ConfigInvalid:
    return ConfigInvalid([invalid(setting, path, text)])
