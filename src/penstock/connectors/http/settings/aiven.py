"""The settings of the sink, under the names of Aiven's connector (connectors.md §12.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api import Backoff
from penstock.api.settings import (
    HIDDEN,
    HIGH,
    LONG,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    checking,
    invalid,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, Fixed, OAuth2, TokenOptions
from penstock.connectors.http.settings import shared, sinks
from penstock.connectors.http.settings.shared import named
from penstock.connectors.http.templates import Style, Template
from penstock.connectors.http.write.plan import Batch, Nulls, Retry, SinkPlan, text_or_json

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


# fmt: off
_CONNECTION: Final = Group("Connection", importance=LOW, numbered=False)
URL: Final = _CONNECTION.text("http.url", REQUIRED,
    "The URL; also with placeholders: `${topic}`, `${key}` and fields of the value.",
    check=shared.template(_PLAIN, url=True), importance=HIGH)
PROXY_HOST: Final = _CONNECTION.text("http.proxy.host", None, "An HTTP proxy.")
PROXY_PORT: Final = _CONNECTION.number("http.proxy.port", -1,
    "The proxy's port.", at_least=-1, at_most=65_535)
TRUST_ALL: Final = _CONNECTION.flag("http.ssl.trust.all.certs", False,
    "Whether to trust any server certificate. Not for production.")
TRUSTSTORE: Final = _CONNECTION.text("http.ssl.truststore.location", None,
    "The trusted certificates: PEM or PKCS12.")
TRUSTSTORE_PASSWORD: Final = _CONNECTION.secret("http.ssl.truststore.password", None,
    "The password of the trust store.")
AUTH: Final = _CONNECTION.text("http.authorization.type", REQUIRED,
    "How requests are authenticated.", check=named(*_TYPES), offers=_TYPES, importance=HIGH)
AUTHORIZATION: Final = _CONNECTION.secret("http.headers.authorization", None,
    "The header Authorization, for http.authorization.type=static.", importance=MEDIUM)
CONTENT_TYPE: Final = _CONNECTION.text("http.headers.content.type", None,
    "The header Content-Type.")
ADDITIONAL: Final = _CONNECTION.listing("http.headers.additional", (),
    "Further headers: header:value.", check=checking("header:value pairs", _pair_problem))
TOKEN_URL: Final = _CONNECTION.text("oauth2.access.token.url", None,
    "The URL for access tokens.", check=shared.URL, importance=HIGH)
GRANT_NAME: Final = _CONNECTION.text("oauth2.request.grant.type.property", "grant_type",
    "The form field for the grant type.", importance=HIGH)
GRANT: Final = _CONNECTION.text("oauth2.grant.type", "client_credentials",
    "The grant type.", importance=HIGH)
ID_NAME: Final = _CONNECTION.text("oauth2.request.client.id.property", "client_id",
    "The form field for the client id.", importance=HIGH)
CLIENT_ID: Final = _CONNECTION.text("oauth2.client.id", None, "The client id.", importance=HIGH)
SECRET_NAME: Final = _CONNECTION.text("oauth2.request.client.secret.property", "client_secret",
    "The form field for the client secret.", importance=HIGH)
CLIENT_SECRET: Final = _CONNECTION.secret("oauth2.client.secret", None,
    "The client secret.", importance=HIGH)
MODE: Final = _CONNECTION.text("oauth2.client.authorization.mode", "HEADER",
    "Where to send client id and secret: in a header, or in the form.",
    check=named("HEADER", "URL"), offers=("HEADER", "URL"), importance=MEDIUM)
SCOPE: Final = _CONNECTION.text("oauth2.client.scope", None, "The requested scope.")
TOKEN_PROPERTY: Final = _CONNECTION.text("oauth2.response.token.property", "access_token",
    "The property of the response with the token.")
RENEW_ON: Final = _CONNECTION.listing("oauth2.token.renew.on.status.codes", ("401",),
    "Statuses on which to request a new token, once per request.",
    check=checking("a list of numbers", _number_problem))
_BATCHING: Final = Group("Batching", importance=HIGH, numbered=False)
BATCHING: Final = _BATCHING.flag("batching.enabled", False,
    "Whether to send several records in one request.")
BATCH_SIZE: Final = _BATCHING.number("batch.max.size", 500,
    "Maximum number of records per request.", at_least=1, at_most=1_000_000, importance=MEDIUM)
PREFIX: Final = _BATCHING.text("batch.prefix", "", "The beginning of a batch.")
SUFFIX: Final = _BATCHING.text("batch.suffix", None, "The end of a batch; by default a line break.")
BETWEEN: Final = _BATCHING.text("batch.separator", None,
    "Separator between records; by default a line break.")
_DELIVERY: Final = Group("Delivery", numbered=False)
KAFKA_BACKOFF: Final = _DELIVERY.ignored("kafka.retry.backoff.ms", None,
    "the engine retries batches after pauses that grow", kind=LONG, at_least=0, at_most=86_400_000,
    importance=MEDIUM)
RETRIES: Final = _DELIVERY.number("max.retries", 1,
    "How many times to retry a request.", at_least=0)
BACKOFF: Final = _DELIVERY.number("retry.backoff.ms", 3_000,
    "How long to wait before a retry.", at_least=0)
_TIMEOUT: Final = Group("Timeout", numbered=False)
TIMEOUT: Final = _TIMEOUT.number("http.timeout", 30,
    "How many seconds to wait for a response.", at_least=1, importance=LOW)
_FORMAT: Final = Group("Format", numbered=False)
DECIMALS: Final = _FORMAT.text("decimal.format", "BASE64",
    "How decimals are written in JSON.", check=named("BASE64", "NUMERIC"),
    offers=("BASE64", "NUMERIC"), importance=LOW)
# fmt: on


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
    *(*_CONNECTION, *_BATCHING, *_DELIVERY, *_TIMEOUT, *_FORMAT),
    *(*sinks.SINK_KEYS, *ssl_keys(shared.OWN_TLS)),
    rules=(_rule, shared.api_key_rule, shared.http2_rule(URL)),
)  # fmt: skip


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task."""
    headers = shared.pairs_of(ADDITIONAL.name, config[ADDITIONAL], ",")
    content_type = config[CONTENT_TYPE]
    if content_type:
        headers += (("Content-Type", content_type),)
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
            return Fixed((("Authorization", shared.given(config, AUTHORIZATION).value),))
        case "oauth2":
            return OAuth2(
                TokenOptions(
                    shared.given(config, TOKEN_URL),
                    shared.given(config, CLIENT_ID),
                    shared.given(config, CLIENT_SECRET),
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
