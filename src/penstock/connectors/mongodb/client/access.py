"""Connection parameters of a server, and the connections."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.api import ConfigInvalid, Extra
from penstock.api.settings import Secret
from penstock.api.tls import JavaStore, is_pem, opened

if TYPE_CHECKING:
    from pymongo import MongoClient

MONGODB: Final = Extra("mongodb", "MongoDB connectors", ("pymongo", "bson"))
"""The packages that the connectors need."""

log = logging.getLogger(__name__)

SRV: Final = "mongodb+srv://"
PLAIN: Final = "mongodb://"

_WAIT_MS: Final = 5_000
"""How long a call waits for a server unless the URI sets a limit; then it fails, and the engine
retries it."""


@dataclass(frozen=True, slots=True)
class Store:
    """A file of certificates or of a key: PKCS #12, with its password, or PEM."""

    path: str
    password: Secret


@dataclass(frozen=True, slots=True)
class Access:
    """Connection parameters of a deployment. `uri` is a secret: it may hold a password."""

    uri: Secret
    trust: Store | None = None
    key: Store | None = None
    api: str = ""
    api_strict: bool = False
    api_deprecation_errors: bool = False
    kind: str = "sink"  # the client's name in the server's log

    @contextlib.contextmanager
    def connected(
        self, wait_ms: int = _WAIT_MS, **options: Any
    ) -> Iterator[MongoClient[dict[str, Any]]]:
        """A client, closed at the end."""
        client = self.client(wait_ms, **options)
        try:
            yield client
        finally:
            client.close()

    def client(self, wait_ms: int = _WAIT_MS, **options: Any) -> MongoClient[dict[str, Any]]:
        """A client that connects on first use; the caller closes it. Raises ConfigInvalid for a URI
        or a file that cannot be used."""
        from pymongo import MongoClient
        from pymongo.driver_info import DriverInfo
        from pymongo.errors import ConfigurationError, InvalidURI
        from pymongo.server_api import ServerApi

        client_options: dict[str, Any] = {
            "tz_aware": True,
            "datetime_conversion": "DATETIME_AUTO",
            "driver": DriverInfo("penstock", None, self.kind),
            **options,
        }
        if "serverselectiontimeoutms=" not in self.uri.value.lower():
            client_options["serverSelectionTimeoutMS"] = wait_ms
        if self.api:
            client_options["server_api"] = ServerApi(
                self.api,
                strict=self.api_strict,
                deprecation_errors=self.api_deprecation_errors,
            )
        with tempfile.TemporaryDirectory(prefix="penstock-mongodb-") as folder:
            client_options.update(self._tls(Path(folder)))
            try:
                return MongoClient(self.uri.value, **client_options)  # reads the files at once
            except (ConfigurationError, InvalidURI) as error:
                raise ConfigInvalid([f"connection.uri is invalid: {error}"]) from error
            except OSError as error:
                raise ConfigInvalid([f"connection.ssl.truststore: {error}"]) from error

    def _tls(self, folder: Path) -> Mapping[str, str]:
        """The client's options for TLS; writes certificates and keys into the folder, as PEM."""
        options: dict[str, str] = {}
        uri = self.uri.value.lower()
        if not uri.startswith(SRV) and "tls=true" not in uri and "ssl=true" not in uri:
            if self.trust is not None or self.key is not None:
                log.warning("connection.ssl.* has no effect: set tls=true in connection.uri")
            return options
        if self.trust is not None:
            pem = _pem(self.trust, "connection.ssl.truststore")[0]
            options["tlsCAFile"] = _written(folder / "trust.pem", pem)
        if self.key is not None:
            certificates, key = _pem(self.key, "connection.ssl.keystore")
            if not key:
                raise ConfigInvalid(["connection.ssl.keystore has no private key"])
            options["tlsCertificateKeyFile"] = _written(folder / "key.pem", key + certificates)
        return options


def _written(path: Path, data: bytes) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(data)
    return str(path)


def _pem(store: Store, setting: str) -> tuple[bytes, bytes]:
    """The certificates of a file, and its private key (empty: it has none), as PEM. Raises
    ConfigInvalid."""
    try:
        data = Path(store.path).read_bytes()
    except OSError as error:
        raise ConfigInvalid([f"{setting} cannot be read: {error}"]) from error
    if is_pem(data):
        return data, data if b"PRIVATE KEY" in data else b""
    try:
        contents = opened(data, store.path, store.password.value.strip())
    except JavaStore as error:
        raise ConfigInvalid(
            [f"{setting} is a JKS file, which is not supported; convert it with: {error.command}"]
        ) from error
    except ValueError as error:
        raise ConfigInvalid([f"{setting} is neither PEM nor PKCS #12: {error}"]) from error
    return contents.certificates_pem(), contents.key_pem()
