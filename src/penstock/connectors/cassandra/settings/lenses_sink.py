"""Settings of Lenses' sink, which translates KCQL into DataStax's mapping (connectors.md §7.2)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    Config,
    ConfigDef,
    Group,
)
from penstock.connectors.cassandra.client.access import Access, Names
from penstock.connectors.cassandra.settings import lenses
from penstock.connectors.cassandra.settings.tls import tls_context
from penstock.connectors.cassandra.settings.topics import Problems, topic_plans
from penstock.connectors.cassandra.text.kcql import Statement
from penstock.connectors.cassandra.text.names import quoted
from penstock.connectors.cassandra.write.plan import Ignore, SinkPlan, TopicPlan

_VARIABLES: Final = ("__ttl", "__timestamp")
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,47}")


# fmt: off
_CONNECTION: Final = Group("Connection", importance=LOW, numbered=False)
IN_FLIGHT: Final = _CONNECTION.number("connect.cassandra.max.concurrent.requests", 100,
    "Maximum number of concurrent requests of a task.", at_least=1, importance=MEDIUM)
POOL: Final = _CONNECTION.ignored("connect.cassandra.connection.pool.size", 2,
    "a task has one connection to each node", at_least=1, importance=MEDIUM)
COMPRESSION: Final = _CONNECTION.choice(
    "connect.cassandra.compression", "none", ("none", "snappy", "lz4"),
    "The compression of requests; lz4 and snappy need their Python packages.", ignore_case=True,
    offers=("none", "snappy", "lz4"), importance=MEDIUM)
TIMEOUT: Final = _CONNECTION.number("connect.cassandra.query.timeout.ms", 20_000,
    "How long to wait for a response, in ms.", at_least=1, importance=MEDIUM)
BATCH: Final = _CONNECTION.number("connect.cassandra.max.batch.size", 64,
    "Maximum number of records per request; they belong to the same partition of a table.",
    at_least=1, importance=MEDIUM)
DC: Final = _CONNECTION.text("connect.cassandra.load.balancing.local.dc", "",
    "The data center of the nodes to use; empty: that of the first contact point.",
    importance=MEDIUM)
TLS: Final = _CONNECTION.flag("connect.cassandra.ssl.enabled", False,
    "Whether to connect with TLS.")


TRUST_STORE: Final = _CONNECTION.text("connect.cassandra.ssl.truststore.path", "",
    "The trusted certificates: PKCS #12 or PEM.")
TRUST_STORE_PASSWORD: Final = _CONNECTION.secret("connect.cassandra.ssl.truststore.password", "",
    "Its password.")
KEY_STORE: Final = _CONNECTION.text("connect.cassandra.ssl.keystore.path", "",
    "The client's key and certificate: PKCS #12 or PEM.")
KEY_STORE_PASSWORD: Final = _CONNECTION.secret("connect.cassandra.ssl.keystore.password", "",
    "Its password.")
SSL_PROVIDER: Final = _CONNECTION.choice(
    "connect.cassandra.ssl.provider", "None", ("None", "JDK", "OpenSSL"),
    "Whether the client's certificate is in a key store (`JDK`) or in PEM files (`OpenSSL`).",
    ignore_case=True, offers=("None", "JDK", "OpenSSL"), importance=MEDIUM)
SUITES: Final = _CONNECTION.text("connect.cassandra.ssl.cipher.suites", "",
    "The cipher suites to use, by their Java names.")
CHECKS_NAMES: Final = _CONNECTION.flag("connect.cassandra.ssl.hostname.verification", True,
    "Whether to check that the nodes' certificates match their host names.", importance=MEDIUM)
KEY_CHAIN: Final = _CONNECTION.text("connect.cassandra.ssl.openssl.key.cert.chain", "",
    "The client's certificates in PEM.")
PRIVATE_KEY: Final = _CONNECTION.text("connect.cassandra.ssl.openssl.private.key", "",
    "The client's key in PEM.")
_AUTH: Final = Group("Authentication", importance=HIGH, numbered=False)
AUTH: Final = _AUTH.choice("connect.cassandra.auth.provider", "None", ("None", "PLAIN", "GSSAPI"),
    "How to authenticate.", ignore_case=True, offers=("None", "PLAIN", "GSSAPI"))
USER: Final = _AUTH.text("connect.cassandra.auth.username", "", "The user name, for PLAIN.")
PASSWORD_KEY: Final = _AUTH.secret(f"{lenses.PREFIX}auth.password", "", "The user's password.")
KEY_TAB: Final = _AUTH.refused("connect.cassandra.auth.gssapi.keytab", "",
    "Not supported: tickets are taken from the Kerberos ticket cache; fill it with kinit -k.",
    "Key tabs are not supported; remove the setting, and fill the ticket cache with kinit -k",
    importance=HIGH)
PRINCIPAL: Final = _AUTH.text("connect.cassandra.auth.gssapi.principal", "",
    "The principal, for GSSAPI.")
SERVICE: Final = _AUTH.text("connect.cassandra.auth.gssapi.service", "dse",
    "The service name, for GSSAPI.")
_ERROR: Final = Group("Error", numbered=False)
IGNORE: Final = _ERROR.choice(
    "connect.cassandra.ignore.errors.mode", "none", ("none", "all", "driver"),
    "Which rejected records to skip and log: `none`, `all`, or `driver`: those that the cluster "
    "rejects.", ignore_case=True, offers=("none", "all", "driver"))
# fmt: on

LENSES_SINK: Final = ConfigDef(
    lenses.POINTS,
    lenses.PORT,
    *_CONNECTION,
    *_AUTH,
    *(IGNORE, lenses.RETRIES, lenses.RETRY_INTERVAL, lenses.KCQL, lenses.PROGRESS),
    lenses.ERROR_POLICY,
)

_TLS_NAMES: Final = {
    "ssl.truststore.location": TRUST_STORE.name,
    "ssl.truststore.password": TRUST_STORE_PASSWORD.name,
    "ssl.cipher.suites": SUITES.name,
}
_JDK_NAMES: Final = {
    "ssl.keystore.location": KEY_STORE.name,
    "ssl.keystore.password": KEY_STORE_PASSWORD.name,
}
_OPENSSL_NAMES: Final = {
    "ssl.keystore.key": PRIVATE_KEY.name,
    "ssl.keystore.certificate.chain": KEY_CHAIN.name,
}


def access(config: Config) -> Access:
    """Connection parameters of the cluster. Raises ConfigInvalid."""
    tls = None
    if config[TLS]:
        is_pem = config[SSL_PROVIDER].lower() == "openssl"
        names = {**_TLS_NAMES, **(_OPENSSL_NAMES if is_pem else _JDK_NAMES)}
        tls = tls_context(config.props, names)
        tls.check_hostname = config[CHECKS_NAMES]
    provider = config[AUTH].upper()
    return Access(
        points=lenses.points_of(config),
        port=config[lenses.PORT],
        names=Names(
            lenses.POINTS.name,
            USER.name,
            compression=COMPRESSION.name,
            tls=TLS.name,
            auth=AUTH.name,
        ),
        dc=config[DC],
        user=config[USER] if provider == "PLAIN" else "",
        password=config[PASSWORD_KEY],
        krb_service=config[SERVICE] if provider == "GSSAPI" else "",
        krb_principal=config[PRINCIPAL],
        tls=tls,
        compression=config[COMPRESSION],
        request_s=config[TIMEOUT] / 1000,
    )


def _plans(config: Config) -> tuple[dict[str, TopicPlan], Problems]:
    """Translates KCQL into settings of DataStax's sink; problems blame the KCQL setting."""
    props: dict[str, str] = {}
    problems: list[str] = []
    for statement in lenses.statements(config):
        keyspace, dot, table = statement.target.partition(".")
        if not dot:
            problems.append(
                f"KCQL target must be in the form namespace.table, got: {statement.target}"
            )
            continue
        for kind, name in (("keyspace (namespace)", keyspace), ("table", table)):
            if not _NAME.fullmatch(name):
                problems.append(
                    f"Invalid Cassandra {kind} name: '{name}'. Must start with a letter, contain "
                    "only letters, numbers, and underscores, and be at most 48 characters."
                )
        if not statement.fields:
            problems.append(
                f"SELECT * does not map columns of {statement.target}; select each field AS its "
                "column"
            )
            continue
        prefix = f"topic.{statement.source}.{keyspace}.{table}."
        props[f"{prefix}mapping"] = _mapping(statement)
        for name, value in statement.properties.items():
            is_codec = name.startswith("codec.")
            props[f"topic.{statement.source}.{name}" if is_codec else prefix + name] = value
        if statement.ttl:
            props[f"{prefix}ttl"] = str(statement.ttl)
    if problems:
        return {}, [(lenses.KCQL.name, f"{lenses.KCQL.name}: {text}") for text in problems]
    plans, topic_problems = topic_plans(props)
    name = lenses.KCQL.name
    renamed = {
        topic: replace(plan, tables=tuple(_renamed(table) for table in plan.tables))
        for topic, plan in plans.items()
    }
    return renamed, [(name, f"{name}: {text}") for _, text in topic_problems]


def _renamed(table: Any) -> Any:
    return replace(table, setting=lenses.KCQL.name, query_setting=lenses.KCQL.name)


def _mapping(statement: Statement) -> str:
    """The selected fields in DataStax's mapping language."""
    entries = []
    for selected in statement.fields:
        part, name = "value", selected.name
        for prefix in ("key", "value", "header"):
            if name == f"_{prefix}" or name.startswith(f"_{prefix}."):
                part, name = prefix, name[len(prefix) + 1 :].removeprefix(".")
                break
        field = name if name.endswith("()") else quoted(f"{part}.{name}" if name else part)
        column = selected.alias if selected.alias in _VARIABLES else quoted(selected.alias)
        entries.append(f"{column}={field}")
    return ", ".join(entries)


def problems(config: Config) -> Problems:
    """Problems of the KCQL: the setting to blame, and the message."""
    errors = _plans(config)[1]
    if not lenses.points_of(config):
        errors.append((lenses.POINTS.name, f"{lenses.POINTS.name} must be set"))
    return errors


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task; for a configuration without `problems`."""
    ignore = Ignore(config[IGNORE].lower())
    if config[lenses.ERROR_POLICY].upper() == "NOOP":
        ignore = Ignore.ALL
    return SinkPlan(
        _plans(config)[0],
        lenses.KCQL.name,
        in_flight=config[IN_FLIGHT],
        batch=config[BATCH],
        ignore=ignore,
    )
