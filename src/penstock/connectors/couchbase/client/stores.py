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

from penstock.api import ConfigInvalid
from penstock.api.settings import Secret, invalid
from penstock.api.tls import JavaStore, KeyStore, is_pem, opened
from penstock.connectors.couchbase.client.access import Tls


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
        if not is_pem(content):
            store = _opened(content, trusted, tls.trusted_password, tls.trusted_setting)
            trusted = _written(store.certificates_pem(), stack)
    if tls.client:
        content = _read(tls.client, tls.client_setting)
        if is_pem(content):
            certificate = key = tls.client
        else:
            store = _opened(content, tls.client, tls.client_password, tls.client_setting)
            if store.key is None:
                raise _refused(tls.client_setting, tls.client, "It has no private key")
            certificate = _written(store.certificates_pem(), stack)
            key = _written(store.key_pem(), stack)
    return PemFiles(trusted, certificate, key)


def _read(path: str, setting: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _refused(setting, path, f"Cannot read the file: {error}") from error


def _opened(content: bytes, path: str, password: Secret, setting: str) -> KeyStore:
    try:
        return opened(content, path, password.value)
    except JavaStore as error:
        raise _refused(
            setting, path, f"It is a Java key store; convert it with: {error.command}"
        ) from error
    except ValueError as error:
        raise _refused(
            setting, path, f"It is neither PEM nor PKCS12 with this password: {error}"
        ) from error


def _written(content: bytes, stack: ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-couchbase-"))
    path = Path(folder) / "store.pem"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return str(path)


def _refused(setting: str, path: str, text: str) -> ConfigInvalid:
    return ConfigInvalid([invalid(setting, path, text)])
