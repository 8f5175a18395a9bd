"""Settings of both connectors: the cluster, TLS, logging (connectors.md §11)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    HIGH,
    MEDIUM,
    REQUIRED,
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

# fmt: off
SEED_NODES: Final = _CONNECTION.listing("seed.nodes", REQUIRED,
    "Host names of the cluster's nodes, with the port of the data service if it is not 11210 "
    "(11207 with TLS).", check=non_empty_list(), importance=HIGH, width=Width.LONG)
USERNAME: Final = _CONNECTION.text("username", REQUIRED, "The user name.", importance=HIGH)
PASSWORD_KEY: Final = _CONNECTION.secret("password", REQUIRED,
    "The user's password. The environment variable `KAFKA_COUCHBASE_PASSWORD` of tasks overrides "
    "it.", importance=HIGH)
BUCKET: Final = _CONNECTION.text("bucket", "",
    "The name of the bucket.", importance=HIGH, width=Width.LONG)
NETWORK: Final = _CONNECTION.text("network", "auto",
    "Which address of a node to use if it has several: `default`, `external`, or `auto`: the "
    "kind that the seed nodes belong to.")
BOOTSTRAP_TIMEOUT: Final = _CONNECTION.text("bootstrap.timeout", "30s",
    "How long a task waits for a connection before it retries.", check=DURATION)
ENABLE_TLS: Final = _SECURITY.flag("enable.tls", False,
    "Whether to connect with TLS.", label="Enable TLS",
    dependents=(
        *("trust.certificate.path", "trust.store.path", "trust.store.password"),
        *("enable.hostname.verification", "client.certificate.path"),
        "client.certificate.password"))
VERIFY_NAMES: Final = _SECURITY.flag("enable.hostname.verification", True,
    "Whether to verify the server's certificate. The SDK verifies either everything or nothing: "
    "`false` accepts any certificate.", label="Enable TLS Hostname Verification")
TRUST_STORE: Final = _SECURITY.text("trust.store.path", "",
    "The trusted certificates: a PKCS12 file.", width=Width.LONG)
TRUST_PASSWORD: Final = _SECURITY.secret("trust.store.password", "",
    "The password of the trust store. The environment variable "
    "`KAFKA_COUCHBASE_TRUST_STORE_PASSWORD` of tasks overrides it.")
TRUST_CERTIFICATE: Final = _SECURITY.text("trust.certificate.path", "",
    "The trusted certificates: a PEM file.", width=Width.LONG)
CLIENT_CERTIFICATE: Final = _SECURITY.text("client.certificate.path", "",
    "The client certificates and key, as a PKCS12 or PEM file. Replaces user name and password.",
    width=Width.LONG)
CLIENT_PASSWORD: Final = _SECURITY.secret("client.certificate.password", "",
    "The password of the client certificate file. The environment variable "
    "`KAFKA_COUCHBASE_CLIENT_CERTIFICATE_PASSWORD` of tasks overrides it.")
LOG_REDACTION: Final = _LOGGING.text("log.redaction", "NONE",
    "Whether to enclose document ids in log lines and error messages in `<ud>` and `</ud>`, for "
    "Couchbase's redaction tool: `PARTIAL` and `FULL` do.",
    check=Words(("NONE", "PARTIAL", "FULL")))
LOG_LIFECYCLE: Final = _LOGGING.ignored("log.document.lifecycle", False,
    "document lifecycles are not logged", importance=MEDIUM)
METRICS_INTERVAL: Final = _LOGGING.ignored("metrics.interval", "10m",
    "metrics are at `/metrics`", check=DURATION, importance=MEDIUM)
# fmt: on

COMMON_KEYS: Final[tuple[Key[object], ...]] = (
    *_CONNECTION,
    *_SECURITY,
    *_LOGGING,
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
