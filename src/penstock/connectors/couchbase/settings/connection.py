"""Settings of both connectors: the cluster, TLS, logging (connectors.md §11)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    LIST,
    PASSWORD,
    REQUIRED,
    STRING,
    Config,
    Key,
    Secret,
    Width,
    invalid,
    non_empty_list,
)
from penstock.connectors.couchbase.client.access import Access, Tls
from penstock.connectors.couchbase.settings.texts import (
    DURATION,
    PREFIX,
    Group,
    Words,
    duration_ms,
)

_CONNECTION: Final = Group("Connection")
_SECURITY: Final = Group("Security")
_LOGGING: Final = Group("Logging")

SEED_NODES: Final = _CONNECTION.key(
    "seed.nodes",
    LIST,
    REQUIRED,
    "Host names of the cluster's nodes, with the port of the data service if it is not 11210 "
    "(11207 with TLS).",
    check=non_empty_list(),
    importance=HIGH,
    width=Width.LONG,
)
USERNAME: Final = _CONNECTION.key("username", STRING, REQUIRED, "The user name.", importance=HIGH)
PASSWORD_KEY: Final = _CONNECTION.key(
    "password",
    PASSWORD,
    REQUIRED,
    "The user's password. The environment variable `KAFKA_COUCHBASE_PASSWORD` of tasks overrides "
    "it.",
    importance=HIGH,
)
BUCKET: Final = _CONNECTION.key(
    "bucket", STRING, "", "The name of the bucket.", importance=HIGH, width=Width.LONG
)
NETWORK: Final = _CONNECTION.key(
    "network",
    STRING,
    "auto",
    "Which address of a node to use if it has several: `default`, `external`, or `auto`: the kind "
    "that the seed nodes belong to.",
)
BOOTSTRAP_TIMEOUT: Final = _CONNECTION.key(
    "bootstrap.timeout",
    STRING,
    "30s",
    "How long a task waits for a connection before it retries.",
    check=DURATION,
)
ENABLE_TLS: Final = _SECURITY.key(
    "enable.tls",
    BOOLEAN,
    False,
    "Whether to connect with TLS.",
    shown="Enable TLS",
    dependents=(
        "trust.certificate.path",
        "trust.store.path",
        "trust.store.password",
        "enable.hostname.verification",
        "client.certificate.path",
        "client.certificate.password",
    ),
)
VERIFY_NAMES: Final = _SECURITY.key(
    "enable.hostname.verification",
    BOOLEAN,
    True,
    "Whether to verify the server's certificate. The SDK verifies either everything or nothing: "
    "`false` accepts any certificate.",
    shown="Enable TLS Hostname Verification",
)
TRUST_STORE: Final = _SECURITY.key(
    "trust.store.path",
    STRING,
    "",
    "The trusted certificates: a PKCS12 file.",
    width=Width.LONG,
)
TRUST_PASSWORD: Final = _SECURITY.key(
    "trust.store.password",
    PASSWORD,
    Secret(""),
    "The password of the trust store. The environment variable "
    "`KAFKA_COUCHBASE_TRUST_STORE_PASSWORD` of tasks overrides it.",
)
TRUST_CERTIFICATE: Final = _SECURITY.key(
    "trust.certificate.path",
    STRING,
    "",
    "The trusted certificates: a PEM file.",
    width=Width.LONG,
)
CLIENT_CERTIFICATE: Final = _SECURITY.key(
    "client.certificate.path",
    STRING,
    "",
    "The client certificates and key, as a PKCS12 or PEM file. Replaces user name and password.",
    width=Width.LONG,
)
CLIENT_PASSWORD: Final = _SECURITY.key(
    "client.certificate.password",
    PASSWORD,
    Secret(""),
    "The password of the client certificate file. The environment variable "
    "`KAFKA_COUCHBASE_CLIENT_CERTIFICATE_PASSWORD` of tasks overrides it.",
)
LOG_REDACTION: Final = _LOGGING.key(
    "log.redaction",
    STRING,
    "NONE",
    "Whether to enclose document ids in log lines and error messages in `<ud>` and `</ud>`, for "
    "Couchbase's redaction tool: `PARTIAL` and `FULL` do.",
    check=Words(("NONE", "PARTIAL", "FULL")),
)
LOG_LIFECYCLE: Final = _LOGGING.key(
    "log.document.lifecycle", BOOLEAN, False, "Ignored: document lifecycles are not logged."
)
METRICS_INTERVAL: Final = _LOGGING.key(
    "metrics.interval", STRING, "10m", "Ignored: metrics are at `/metrics`.", check=DURATION
)

COMMON_KEYS: Final[tuple[Key[object], ...]] = (
    SEED_NODES,
    USERNAME,
    PASSWORD_KEY,
    BUCKET,
    NETWORK,
    BOOTSTRAP_TIMEOUT,
    ENABLE_TLS,
    VERIFY_NAMES,
    TRUST_STORE,
    TRUST_PASSWORD,
    TRUST_CERTIFICATE,
    CLIENT_CERTIFICATE,
    CLIENT_PASSWORD,
    LOG_REDACTION,
    LOG_LIFECYCLE,
    METRICS_INTERVAL,
)

_ENV: Final = PREFIX + "env."
_TIMEOUTS: Final = {
    "timeout.kvTimeout": "kv_timeout",
    "timeout.kvDurableTimeout": "kv_durable_timeout",
    "timeout.connectTimeout": "connect_timeout",
    "timeout.queryTimeout": "query_timeout",
    "timeout.managementTimeout": "management_timeout",
}
"""Properties of the Java SDK's environment that the Python SDK has too, and their names there."""


def tls_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Trusted certificates have to be in one file."""
    if parsed.get(TRUST_STORE.name) and parsed.get(TRUST_CERTIFICATE.name):
        yield (
            TRUST_CERTIFICATE.name,
            f"Set either '{TRUST_CERTIFICATE.name}' or '{TRUST_STORE.name}'.",
        )


def access_of(config: Config, environ: Mapping[str, str] | None = None) -> Access:
    """The connection parameters of a configuration. Raises ConfigInvalid."""
    env = os.environ if environ is None else environ

    def secret(key: Key[Secret], variable: str) -> Secret:
        return Secret(env[variable]) if env.get(variable) else config[key]

    tls = None
    if config[ENABLE_TLS]:
        trusted = TRUST_CERTIFICATE if config[TRUST_CERTIFICATE] else TRUST_STORE
        tls = Tls(
            verifies_names=config[VERIFY_NAMES],
            trusted=config[trusted],
            trusted_password=secret(TRUST_PASSWORD, "KAFKA_COUCHBASE_TRUST_STORE_PASSWORD"),
            trusted_setting=trusted.name,
            client=config[CLIENT_CERTIFICATE],
            client_password=secret(CLIENT_PASSWORD, "KAFKA_COUCHBASE_CLIENT_CERTIFICATE_PASSWORD"),
            client_setting=CLIENT_CERTIFICATE.name,
        )
    return Access(
        nodes=config[SEED_NODES],
        username=config[USERNAME],
        password=secret(PASSWORD_KEY, "KAFKA_COUCHBASE_PASSWORD"),
        network=config[NETWORK],
        bootstrap_ms=duration_ms(config[BOOTSTRAP_TIMEOUT]),
        tls=tls,
        timeouts_ms=_timeouts(config),
    )


def redacts(config: Config) -> bool:
    """Whether ids of documents are enclosed in `<ud>`."""
    return config[LOG_REDACTION] != "NONE"


def _timeouts(config: Config) -> dict[str, int]:
    timeouts: dict[str, int] = {}
    for name, text in config.under(_ENV).items():
        if name in _TIMEOUTS and text.strip():
            try:
                timeouts[_TIMEOUTS[name]] = duration_ms(text)
            except ValueError as error:
                raise ConfigInvalid([invalid(_ENV + name, text, str(error))]) from error
    return timeouts
