"""The settings that source and sink share: the server, TLS, the API (connectors.md §6)."""

from __future__ import annotations

import warnings
from typing import Final
from urllib.parse import urlsplit

from penstock.api.settings import (
    HIGH,
    Check,
    Config,
    Group,
    Key,
    Secret,
    checking,
)
from penstock.connectors.mongodb.client.access import PLAIN, SRV, Access, Store


def _bad_uri(value: Secret | None) -> str | None:
    uri = "" if value is None else value.value
    if not uri.startswith((PLAIN, SRV)):
        return f"The connection string must begin with {PLAIN} or {SRV}"
    try:
        from pymongo.errors import ConfigurationError, InvalidURI
        from pymongo.uri_parser import parse_uri
    except ImportError:
        return None  # the missing package is reported elsewhere
    if uri.startswith(SRV):
        # Parsing it would query the name server.
        return None if urlsplit(uri).hostname else "The host is missing"
    try:
        with warnings.catch_warnings(action="ignore"):  # options of other drivers
            parse_uri(uri, warn=True)
    except (InvalidURI, ConfigurationError, ValueError) as error:
        return str(error)
    return None


URI_CHECK: Final[Check] = checking("a connection string", _bad_uri)


def uri_key(connection: Group, default: str) -> Key[Secret]:
    """The setting `connection.uri`, whose default differs between source and sink."""
    return connection.secret(
        "connection.uri",
        default,
        "Connection string of the deployment, mongodb:// or mongodb+srv://, with user, password "
        "and driver options.",
        check=URI_CHECK,
        importance=HIGH,
    )


# fmt: off
_TLS: Final = Group("SSL")
TRUST_STORE: Final = _TLS.text("connection.ssl.truststore", "",
    "File with the trusted certificates, on every machine that runs tasks: PKCS #12 or PEM. "
    "Needs `tls=true` in the URI.")
TRUST_STORE_PASSWORD: Final = _TLS.secret("connection.ssl.truststorePassword", "",
    "Password of that file.")
KEY_STORE: Final = _TLS.text("connection.ssl.keystore", "",
    "File with the client's certificate and private key: PKCS #12 or PEM.")
KEY_STORE_PASSWORD: Final = _TLS.secret("connection.ssl.keystorePassword", "",
    "Password of that file.")
_API: Final = Group("Server Api")
SERVER_API: Final = _API.choice("server.api.version", "", ("", "1"),
    "Version of the Stable API to request from the server. Empty: none.")
SERVER_API_DEPRECATION_ERRORS: Final = _API.flag("server.api.deprecation.errors", False,
    "Whether the server refuses requests that are deprecated in that version.")
SERVER_API_STRICT: Final = _API.flag("server.api.strict", False,
    "Whether the server refuses requests that are not part of that version.")


_CONNECTION: Final = Group("Connection", numbered=False)
CUSTOM_AUTH: Final = _CONNECTION.refused("mongo.custom.auth.mechanism.enable", False,
    "Authentication by a JVM class: not supported, refused if true.",
    "Authentication by a JVM class is not supported")
ENCRYPTION: Final = _CONNECTION.refused("csfle.enabled", False,
    "Client-side field level encryption: not supported, refused if true.",
    "Client-side field level encryption is not supported")
# fmt: on

ACCESS: Final = (*_API, *_TLS, CUSTOM_AUTH)


def access_of(config: Config, uri: Key[Secret], kind: str) -> Access:
    """The connection parameters of a configuration."""

    def store(path: Key[str], password: Key[Secret]) -> Store | None:
        return Store(config[path].strip(), config[password]) if config[path].strip() else None

    return Access(
        uri=config[uri],
        trust=store(TRUST_STORE, TRUST_STORE_PASSWORD),
        key=store(KEY_STORE, KEY_STORE_PASSWORD),
        api=config[SERVER_API],
        api_strict=config[SERVER_API_STRICT],
        api_deprecation_errors=config[SERVER_API_DEPRECATION_ERRORS],
        kind=kind,
    )
