"""The settings of the sink, under the names of Aiven's connector (connectors.md §12.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api import Backoff
from penstock.api.settings import (
    BOOLEAN,
    HIDDEN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    at_least,
    between,
    checking,
    invalid,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, Fixed, OAuth2, TokenOptions
from penstock.connectors.http.settings import shared, sinks
from penstock.connectors.http.settings.shared import key, named
from penstock.connectors.http.templates import Style, Template
from penstock.connectors.http.write.plan import Batch, Nulls, Retry, SinkPlan, text_or_json

_C, _B, _D, _T, _F = "Connection", "Batching", "Delivery", "Timeout", "Format"
_TYPES: Final = ("none", "oauth2", "static")
_PLAIN: Final = Style.DOLLAR


def _pair_problem(entries: tuple[str, ...] | None) -> str | None:
    names: set[str] = set()
    for entry in entries or ():
        name, colon, value = entry.partition(":")
        if not colon or not name.strip() or not value.strip():
            return f"'{entry}' is not header:value"
        if name.strip().lower() in names:
            return f"'{name.strip()}' is listed twice"
        names.add(name.strip().lower())
    return None


def _number_problem(entries: tuple[str, ...] | None) -> str | None:
    bad = [entry for entry in entries or () if not entry.isdecimal()]
    return f"must be a list of numbers: {', '.join(bad)}" if bad else None


URL: Final = key(
    "http.url", STRING, REQUIRED, HIGH, _C,
    "The URL; also with placeholders: `${topic}`, `${key}` and fields of the value.",
    shared.template(_PLAIN, url=True),
)  # fmt: skip
PROXY_HOST: Final = key("http.proxy.host", STRING, None, LOW, _C, "An HTTP proxy.")
PROXY_PORT: Final = key(
    "http.proxy.port", INT, -1, LOW, _C, "The proxy's port.", between(-1, 65_535)
)
TRUST_ALL: Final = key(
    "http.ssl.trust.all.certs", BOOLEAN, False, LOW, _C,
    "Whether to trust any server certificate. Not for production.",
)  # fmt: skip
TRUSTSTORE: Final = key(
    "http.ssl.truststore.location", STRING, None, LOW, _C,
    "The trusted certificates: PEM or PKCS12.",
)  # fmt: skip
TRUSTSTORE_PASSWORD: Final = key(
    "http.ssl.truststore.password", PASSWORD, None, LOW, _C, "The password of the trust store."
)
AUTH: Final = key(
    "http.authorization.type", STRING, REQUIRED, HIGH, _C, "How requests are authenticated.",
    named(*_TYPES), _TYPES,
)  # fmt: skip
AUTHORIZATION: Final = key(
    "http.headers.authorization", PASSWORD, None, MEDIUM, _C,
    "The header Authorization, for http.authorization.type=static.",
)  # fmt: skip
CONTENT_TYPE: Final = key(
    "http.headers.content.type", STRING, None, LOW, _C, "The header Content-Type."
)
ADDITIONAL: Final = key(
    "http.headers.additional", LIST, (), LOW, _C, "Further headers: header:value.",
    checking("header:value pairs", _pair_problem),
)  # fmt: skip
TOKEN_URL: Final = key(
    "oauth2.access.token.url", STRING, None, HIGH, _C, "The URL for access tokens.", shared.URL
)
GRANT_NAME: Final = key(
    "oauth2.request.grant.type.property", STRING, "grant_type", HIGH, _C,
    "The form field for the grant type.",
)  # fmt: skip
GRANT: Final = key("oauth2.grant.type", STRING, "client_credentials", HIGH, _C, "The grant type.")
ID_NAME: Final = key(
    "oauth2.request.client.id.property", STRING, "client_id", HIGH, _C,
    "The form field for the client id.",
)  # fmt: skip
CLIENT_ID: Final = key("oauth2.client.id", STRING, None, HIGH, _C, "The client id.")
SECRET_NAME: Final = key(
    "oauth2.request.client.secret.property", STRING, "client_secret", HIGH, _C,
    "The form field for the client secret.",
)  # fmt: skip
CLIENT_SECRET: Final = key("oauth2.client.secret", PASSWORD, None, HIGH, _C, "The client secret.")
MODE: Final = key(
    "oauth2.client.authorization.mode", STRING, "HEADER", MEDIUM, _C,
    "Where to send client id and secret: in a header, or in the form.",
    named("HEADER", "URL"), ("HEADER", "URL"),
)  # fmt: skip
SCOPE: Final = key("oauth2.client.scope", STRING, None, LOW, _C, "The requested scope.")
TOKEN_PROPERTY: Final = key(
    "oauth2.response.token.property", STRING, "access_token", LOW, _C,
    "The property of the response with the token.",
)  # fmt: skip
RENEW_ON: Final = key(
    "oauth2.token.renew.on.status.codes", LIST, ("401",), LOW, _C,
    "Statuses on which to request a new token, once per request.",
    checking("a list of numbers", _number_problem),
)  # fmt: skip
BATCHING: Final = key(
    "batching.enabled", BOOLEAN, False, HIGH, _B, "Whether to send several records in one request."
)
BATCH_SIZE: Final = key(
    "batch.max.size", INT, 500, MEDIUM, _B, "Maximum number of records per request.",
    between(1, 1_000_000),
)  # fmt: skip
PREFIX: Final = key("batch.prefix", STRING, "", HIGH, _B, "The beginning of a batch.")
SUFFIX: Final = key(
    "batch.suffix", STRING, None, HIGH, _B, "The end of a batch; by default a line break."
)
BETWEEN: Final = key(
    "batch.separator", STRING, None, HIGH, _B, "Separator between records; by default a line break."
)
KAFKA_BACKOFF: Final = key(
    "kafka.retry.backoff.ms", LONG, None, MEDIUM, _D,
    "Ignored: the engine retries batches after pauses that grow.",
    between(0, 86_400_000),
)  # fmt: skip
RETRIES: Final = key(
    "max.retries", INT, 1, MEDIUM, _D, "How many times to retry a request.", at_least(0)
)
BACKOFF: Final = key(
    "retry.backoff.ms", INT, 3_000, MEDIUM, _D, "How long to wait before a retry.", at_least(0)
)
TIMEOUT: Final = key(
    "http.timeout", INT, 30, LOW, _T, "How many seconds to wait for a response.", at_least(1)
)
DECIMALS: Final = key(
    "decimal.format", STRING, "BASE64", LOW, _F, "How decimals are written in JSON.",
    named("BASE64", "NUMERIC"), ("BASE64", "NUMERIC"),
)  # fmt: skip


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    kind = str(parsed.get(AUTH.name) or "").lower()
    static = parsed.get(AUTHORIZATION.name)
    if kind == "static" and static is None:
        yield (
            AUTHORIZATION.name,
            invalid(AUTHORIZATION.name, None, f"Must be present when {AUTH.name} = static"),
        )
    if kind in ("none", "oauth2") and static is not None:
        yield (
            AUTHORIZATION.name,
            invalid(AUTHORIZATION.name, HIDDEN, f"Must not be present when {AUTH.name} != static"),
        )
    if kind == "oauth2":
        for setting in (TOKEN_URL, CLIENT_ID, CLIENT_SECRET):
            if not parsed.get(setting.name):
                yield (
                    setting.name,
                    invalid(setting.name, None, f"Must be present when {AUTH.name} = oauth2"),
                )
    port = parsed.get(PROXY_PORT.name)
    if bool(parsed.get(PROXY_HOST.name)) != (isinstance(port, int) and port > 0):
        yield PROXY_HOST.name, f"{PROXY_HOST.name} and {PROXY_PORT.name} must be defined together"


AIVEN_SINK: Final = ConfigDef(
    URL, PROXY_HOST, PROXY_PORT, TRUST_ALL, TRUSTSTORE, TRUSTSTORE_PASSWORD, AUTH, AUTHORIZATION,
    CONTENT_TYPE, ADDITIONAL, TOKEN_URL, GRANT_NAME, GRANT, ID_NAME, CLIENT_ID, SECRET_NAME,
    CLIENT_SECRET, MODE, SCOPE, TOKEN_PROPERTY, RENEW_ON,
    BATCHING, BATCH_SIZE, PREFIX, SUFFIX, BETWEEN, KAFKA_BACKOFF, RETRIES, BACKOFF, TIMEOUT,
    DECIMALS, *sinks.SINK_KEYS, *ssl_keys(shared.OWN_TLS),
    rules=(_rule, shared.api_key_rule, shared.http2_rule(URL)),
)  # fmt: skip


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task."""
    headers = shared.pairs_of(ADDITIONAL.name, config[ADDITIONAL], ",")
    if config[CONTENT_TYPE]:
        headers += (("Content-Type", config[CONTENT_TYPE]),)
    batch = None
    if config[BATCHING]:
        batch = Batch(
            config[BATCH_SIZE],
            _raw(config, PREFIX, ""),
            _raw(config, SUFFIX, "\n"),
            _raw(config, BETWEEN, "\n"),
            divides=config[sinks.DIVIDE],
        )
    return SinkPlan(
        method="POST",
        url=Template(config[URL], _PLAIN, url=True),
        body=text_or_json(numeric=config[DECIMALS].upper() == "NUMERIC"),
        retry=Retry(frozenset(range(400, 600)), config[RETRIES], Backoff.fixed(config[BACKOFF])),
        headers=sinks.header_templates(headers, _PLAIN),
        batch=batch,
        nulls=Nulls.FAIL,
        **sinks.common(config),
    )


def _raw(config: Config, setting: Any, default: str) -> bytes:
    """A setting's raw text with the escapes of a properties file: `\\n` is a line break."""
    text = config.props.get(setting.name, default)
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").encode()


def client_options(config: Config) -> ClientOptions:
    """Options of connections. Raises ConfigInvalid."""
    stores = {
        name: value for name, value in config.props.items() if name.startswith("http.ssl.trustst")
    }
    own = {
        name: value for name, value in config.props.items() if name.startswith("penstock.http.ssl.")
    }
    return shared.client_options(
        config,
        connect_ms=config[TIMEOUT] * 1000,
        read_ms=config[TIMEOUT] * 1000,
        connections=config[sinks.IN_FLIGHT],
        tls=shared.tls_context(
            own or stores,
            shared.OWN_TLS if own else "http.",
            trusts_all=config[TRUST_ALL],
        ),
        proxy=shared.proxy_url(config[PROXY_HOST], config[PROXY_PORT]),
    )


def auth(config: Config) -> Auth | None:
    """The authentication of requests."""
    match config[AUTH].lower():
        case "static":
            return Fixed((("Authorization", config[AUTHORIZATION].value),))
        case "oauth2":
            return OAuth2(
                TokenOptions(
                    config[TOKEN_URL],
                    config[CLIENT_ID],
                    config[CLIENT_SECRET],
                    config[SCOPE],
                    in_header=config[MODE].upper() == "HEADER",
                    token_property=config[TOKEN_PROPERTY],
                    grant_type=config[GRANT],
                    grant_name=config[GRANT_NAME],
                    id_name=config[ID_NAME],
                    secret_name=config[SECRET_NAME],
                    renew_on=frozenset(int(status) for status in config[RENEW_ON]),
                )
            )
    return shared.own_auth(config)
