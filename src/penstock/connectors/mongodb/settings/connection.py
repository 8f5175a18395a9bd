"""The settings that source and sink share: the server, TLS, the API (connectors.md §6)."""

from __future__ import annotations

import warnings
from typing import Final
from urllib.parse import urlsplit

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    Check,
    Config,
    Key,
    Secret,
    checking,
    one_of,
)
from penstock.connectors.mongodb.client.access import PLAIN, SRV, Access, Store

_CONNECTION: Final = "Connection"
_TLS: Final = "SSL"
_API: Final = "Server Api"


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


def uri_key(default: str) -> Key[Secret]:
    """The setting `connection.uri`, whose default differs between source and sink."""
    return Key(
        "connection.uri",
        PASSWORD,
        default=Secret(default),
        importance=HIGH,
        check=URI_CHECK,
        doc="Connection string of the deployment, mongodb:// or mongodb+srv://, with user, "
        "password and driver options.",
        group=_CONNECTION,
        order=3,
    )


TRUST_STORE: Final = Key(
    "connection.ssl.truststore",
    STRING,
    default="",
    importance=MEDIUM,
    doc="File with the trusted certificates, on every machine that runs tasks: PKCS #12 or PEM. "
    "Needs `tls=true` in the URI.",
    group=_TLS,
    order=1,
)
TRUST_STORE_PASSWORD: Final = Key(
    "connection.ssl.truststorePassword",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="Password of that file.",
    group=_TLS,
    order=2,
)
KEY_STORE: Final = Key(
    "connection.ssl.keystore",
    STRING,
    default="",
    importance=MEDIUM,
    doc="File with the client's certificate and private key: PKCS #12 or PEM.",
    group=_TLS,
    order=3,
)
KEY_STORE_PASSWORD: Final = Key(
    "connection.ssl.keystorePassword",
    PASSWORD,
    default=Secret(""),
    importance=MEDIUM,
    doc="Password of that file.",
    group=_TLS,
    order=4,
)
SERVER_API: Final = Key(
    "server.api.version",
    STRING,
    default="",
    importance=MEDIUM,
    check=one_of("", "1"),
    doc="Version of the Stable API to request from the server. Empty: none.",
    group=_API,
    order=1,
)
SERVER_API_DEPRECATION_ERRORS: Final = Key(
    "server.api.deprecation.errors",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether the server refuses requests that are deprecated in that version.",
    group=_API,
    order=2,
)
SERVER_API_STRICT: Final = Key(
    "server.api.strict",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether the server refuses requests that are not part of that version.",
    group=_API,
    order=3,
)


def jvm_only(name: str, subject: str, instead: str, group: str | None = None) -> Key[str]:
    """A setting that names a class of the JVM, which cannot run here: refused if it is set."""

    def problem(value: str | None) -> str | None:
        return f"{subject} is a JVM class, which is not supported; {instead}" if value else None

    return Key(
        name,
        STRING,
        default="",
        importance=LOW,
        check=checking("empty", problem),
        doc=f"{subject}: not supported, because it is a JVM class; {instead}.",
        group=group,
    )


def false_only(name: str, feature: str) -> Key[bool]:
    """A switch of an unsupported feature: refused if it is on."""

    def problem(value: bool | None) -> str | None:
        return f"{feature} is not supported" if value else None

    return Key(
        name,
        BOOLEAN,
        default=False,
        importance=LOW,
        check=checking("false", problem),
        doc=f"{feature}: not supported, refused if true.",
        group=_CONNECTION,
    )


CUSTOM_AUTH: Final = false_only(
    "mongo.custom.auth.mechanism.enable", "Authentication by a JVM class"
)

ACCESS: Final[tuple[Key[object], ...]] = (
    SERVER_API,
    SERVER_API_DEPRECATION_ERRORS,
    SERVER_API_STRICT,
    TRUST_STORE,
    TRUST_STORE_PASSWORD,
    KEY_STORE,
    KEY_STORE_PASSWORD,
    CUSTOM_AUTH,
)


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
