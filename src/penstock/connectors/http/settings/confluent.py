"""The settings of the sink, under the names of Confluent's connector (connectors.md §12.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock.api import Backoff, Jitter
from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    RegexInvalid,
    compile_java,
    invalid,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, OAuth2, TokenOptions, basic, bearer
from penstock.connectors.http.settings import shared, sinks
from penstock.connectors.http.settings.shared import member, named
from penstock.connectors.http.templates import Row, Style, Template
from penstock.connectors.http.write.plan import (
    Batch,
    Behavior,
    Nulls,
    Retry,
    SinkPlan,
    java_body,
    json_body,
)
from penstock.connectors.http.write.reports import (
    ReportPlan,
    Topic,
    admin_settings,
    producer_settings,
)
from penstock.connectors.http.write.sending import codes

_LONGEST_MS: Final = 60_000  # between retries
_D = Style.DOLLAR
_POLICIES: Final = ("CONSTANT_VALUE", "EXPONENTIAL_WITH_JITTER")
TLS: Final = "https."

# fmt: off
_CONNECTION: Final = Group("Connection", importance=HIGH, numbered=False)
URL: Final = _CONNECTION.text("http.api.url", REQUIRED,
    "The URL, with `${topic}`, `${key}`, `${header.name}` and fields of the value as "
    "placeholders.", check=shared.template(_D, url=True))
METHOD: Final = _CONNECTION.text("request.method", "POST",
    "The method of requests.", check=named("POST", "PUT", "PATCH", "DELETE", "GET"),
    offers=("POST", "PUT", "PATCH"))
NULLS: Final = _CONNECTION.text("behavior.on.null.values", "ignore",
    "How to handle records without a value: ignore, log, send a DELETE request to the URL, or "
    "fail.", check=named("fail", "log", "ignore", "delete"),
    offers=("fail", "log", "ignore", "delete"), importance=LOW)
ERRORS: Final = _CONNECTION.text("behavior.on.error", "fail",
    "How to handle records that the server refuses. fail: as `errors.tolerance` specifies; an "
    "unreachable server is waited for. ignore, log: skip them, also if the server is unreachable "
    "for more than `max.retries` retries.", check=named("fail", "log", "ignore"),
    offers=("fail", "log", "ignore"), importance=LOW)
ERRORS_AS: Final = _CONNECTION.text("report.errors.as", "error_string",
    "What to report in the error topic: a description of the failure, or the response.",
    check=named("error_string", "http_response"), offers=("error_string", "http_response"),
    importance=LOW)
FORMAT: Final = _CONNECTION.text("request.body.format", "string",
    "string: values as strings, structs as Java prints them. json: values as JSON.",
    check=named("string", "json"), offers=("string", "json"), importance=MEDIUM)
HEADERS: Final = _CONNECTION.text("headers", "",
    "Headers of every request, name:value, separated by `header.separator`. Values may contain "
    "placeholders.")
SEPARATOR: Final = _CONNECTION.text("header.separator", "|", "Separator between headers.")
COPIED: Final = _CONNECTION.text("copy.record.headers", "",
    "Names of record headers to copy to requests; `*`: all.", importance=LOW)
CONNECT: Final = _CONNECTION.number("http.connect.timeout.ms", 30_000,
    "How long to wait for a connection.", at_least=1, importance=LOW)
READ: Final = _CONNECTION.number("http.request.timeout.ms", 30_000,
    "How long to wait for a response.", at_least=1, importance=LOW)
PROXY_HOST: Final = _CONNECTION.text("http.proxy.host", "", "An HTTP proxy.")
PROXY_PORT: Final = _CONNECTION.number("http.proxy.port", 0,
    "The proxy's port.", at_least=0, at_most=65535)
PROXY_USER: Final = _CONNECTION.text("http.proxy.user", "", "The proxy's user.")
PROXY_PASSWORD: Final = _CONNECTION.secret("http.proxy.password", None,
    "The proxy user's password.")
_AUTHENTICATION: Final = Group("Authentication", importance=HIGH, numbered=False)
AUTH: Final = _AUTHENTICATION.text("auth.type", "none",
    "How requests are authenticated.", check=named("none", "basic", "oauth2", "bearer"),
    offers=("none", "basic", "oauth2", "bearer"))
USER: Final = _AUTHENTICATION.text("connection.user", "", "The user, for auth.type=basic.")
PASSWORD_KEY: Final = _AUTHENTICATION.secret("connection.password", None, "The user's password.")
TOKEN: Final = _AUTHENTICATION.secret("bearer.token", None, "The token, for auth.type=bearer.")
TOKEN_URL: Final = _AUTHENTICATION.text("oauth2.token.url", "",
    "The URL for access tokens.", check=shared.URL)
CLIENT_ID: Final = _AUTHENTICATION.text("oauth2.client.id", "", "The client id.")
CLIENT_SECRET: Final = _AUTHENTICATION.secret("oauth2.client.secret", None, "The client secret.")
TOKEN_PROPERTY: Final = _AUTHENTICATION.text("oauth2.token.property", "access_token",
    "The property of the response with the token.")
CLIENT_MODE: Final = _AUTHENTICATION.text("oauth2.client.auth.mode", "header",
    "Where to send client id and secret: in a header, or in the form.",
    check=named("header", "url"), offers=("header", "url"), importance=MEDIUM)
SCOPE: Final = _AUTHENTICATION.text("oauth2.client.scope", "any", "The requested scope.")
TOKEN_HEADERS: Final = _AUTHENTICATION.text("oauth2.client.headers", "",
    "Headers of requests for tokens, name:value.", importance=LOW)
TOKEN_SEPARATOR: Final = _AUTHENTICATION.text("oauth2.client.header.separator", "|",
    "Separator between these headers.", importance=LOW)
_RETRIES: Final = Group("Retries", numbered=False)
RETRIES: Final = _RETRIES.number("max.retries", 10,
    "How many times to retry a request.", at_least=0)
BACKOFF: Final = _RETRIES.number("retry.backoff.ms", 3_000,
    "How long to wait before a retry.", at_least=0)
POLICY: Final = _RETRIES.text("retry.backoff.policy", "CONSTANT_VALUE",
    "Whether the pause is constant, or doubles each time with some jitter.",
    check=named(*_POLICIES), offers=_POLICIES, importance=LOW)
RETRY_ON: Final = _RETRIES.text("retry.on.status.codes", "400-",
    "Statuses on which to retry a request: 500,502-504,510-. Other statuses are refusals.",
    check=shared.readable(codes, "statuses and ranges"))
_BATCHING: Final = Group("Batching", importance=HIGH, numbered=False)
BATCH_KEY: Final = _BATCHING.text("batch.key.pattern", "someKey",
    "Records for which this template gives the same string share a request.",
    check=shared.template(_D))
BATCH_SIZE: Final = _BATCHING.number("batch.max.size", 1,
    "Maximum number of records per request.", at_least=1)
PREFIX: Final = _BATCHING.text("batch.prefix", "", "The beginning of a batch.")
SUFFIX: Final = _BATCHING.text("batch.suffix", "", "The end of a batch.")
BETWEEN: Final = _BATCHING.text("batch.separator", ",", "Separator between records.")
AS_ARRAY: Final = _BATCHING.flag("batch.json.as.array", False,
    "Whether to send the records of a request as a JSON array, with request.body.format=json.")
_REGEX: Final = Group("Regex", importance=LOW, numbered=False)
PATTERNS: Final = _REGEX.text("regex.patterns", "", "Regular expressions to replace in records.")
REPLACEMENTS: Final = _REGEX.text("regex.replacements", "",
    "The replacements; `${topic}` and `${key}` are placeholders, `$1` is a group.")
REGEX_SEPARATOR: Final = _REGEX.text("regex.separator", "~",
    "Separator between patterns, and between replacements.")
_REPORTER: Final = Group("Reporter", numbered=False)
BOOTSTRAP: Final = _REPORTER.listing("reporter.bootstrap.servers", (),
    "The brokers for the report topics. Without it, nothing is reported.", importance=HIGH)


def _topic_keys(kind: str, topic: str) -> tuple[Any, ...]:
    """The settings of a report topic."""
    start, formats = f"reporter.{kind}.topic", ("string", "json")
    subject = "answers" if kind == "result" else "failures"
    return (
        _REPORTER.text(f"{start}.name", topic,
            f"The topic of {subject}; empty: none. `${{connector}}` is the connector's name.",
            importance=HIGH),
        _REPORTER.number(f"{start}.replication.factor", 3,
            "The replication factor with which the topic is created.", at_least=1),
        _REPORTER.number(f"{start}.partitions", 1,
            "The number of partitions with which the topic is created.", at_least=1),
        _REPORTER.text(f"{start}.key.format", "json",
            "How keys are written.", check=named(*formats), offers=formats),
        _REPORTER.text(f"{start}.value.format", "json",
            "How values are written.", check=named(*formats), offers=formats),
    )


RESULT: Final = _topic_keys("result", "success-responses")
ERROR: Final = _topic_keys("error", "error-responses")
LEGACY_TLS: Final = {
    "https.ssl.keystorefile": "ssl.keystore.location",
    "https.ssl.truststorefile": "ssl.truststore.location",
}
_TLS: Final = Group("TLS", numbered=False)
HOSTS: Final = _TLS.flag("https.host.verifier.enabled", True,
    "Whether to verify the server's host name.", importance=LOW)
SSL: Final = _TLS.ignored("ssl.enabled", False, "the URL decides")
_OLD_TLS: Final = tuple(
    _TLS.text(name, None, f"Another name of https.{other}.", importance=LOW)
    for name, other in LEGACY_TLS.items()
)
# fmt: on


def _auth_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    kind = str(parsed.get(AUTH.name) or "none").lower()
    needed = {
        "basic": (USER,),
        "oauth2": (TOKEN_URL, CLIENT_ID, CLIENT_SECRET),
        "bearer": (TOKEN,),
    }.get(kind, ())
    for setting in needed:
        if not parsed.get(setting.name):
            yield setting.name, f"{setting.name} must be set when {AUTH.name} is {kind}"


def _regex_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    separator = str(parsed.get(REGEX_SEPARATOR.name) or "~")
    patterns = str(parsed.get(PATTERNS.name) or "")
    replacements = str(parsed.get(REPLACEMENTS.name) or "")
    try:
        replacers(patterns, replacements, separator)
    except (ValueError, RegexInvalid) as error:
        yield PATTERNS.name, invalid(PATTERNS.name, patterns, str(error))


def _batch_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    if parsed.get(AS_ARRAY.name) and str(parsed.get(FORMAT.name)).lower() != "json":
        yield AS_ARRAY.name, f"{AS_ARRAY.name} needs {FORMAT.name}=json"


CONFLUENT_SINK: Final = ConfigDef(
    *(*_CONNECTION, *_AUTHENTICATION, *_RETRIES, *_BATCHING, *_REGEX, *_REPORTER),
    *(SSL, HOSTS, *ssl_keys(TLS), *_OLD_TLS, *sinks.SINK_KEYS),
    rules=(
        _auth_rule, _regex_rule, _batch_rule, shared.api_key_rule, shared.http2_rule(URL),
        sinks.header_rule(HEADERS, SEPARATOR, ":", _D),
    ),
)  # fmt: skip


def replacers(
    patterns: str, replacements: str, separator: str
) -> tuple[Callable[[str, Row], str], ...]:
    """Functions that replace patterns in texts. Raises ValueError and RegexInvalid."""
    if not patterns:
        return ()
    pattern_texts, replacement_texts = patterns.split(separator), replacements.split(separator)
    if len(pattern_texts) != len(replacement_texts):
        raise ValueError(
            f"there are {len(pattern_texts)} patterns and {len(replacement_texts)} replacements; "
            f"set as many as {REPLACEMENTS.name} has"
        )

    def replacer(pattern_text: str, replacement: str) -> Callable[[str, Row], str]:
        pattern: Any = compile_java(pattern_text)
        template = Template(replacement, _D, null="")

        def replace(text: str, row: Row) -> str:
            return str(pattern.sub(re.sub(r"\$(\d)", r"\\\1", template.render(row)), text))

        return replace

    return tuple(map(replacer, pattern_texts, replacement_texts))


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task."""
    is_json = config[FORMAT].lower() == "json"
    most = config[BATCH_SIZE]
    batch = None
    if most > 1 or config[PREFIX] or config[SUFFIX] or config[AS_ARRAY]:
        as_array = config[AS_ARRAY]
        batch = Batch(
            most,
            b"[" if as_array else _raw(config, PREFIX, "").encode(),
            b"]" if as_array else _raw(config, SUFFIX, "").encode(),
            b"," if as_array else _raw(config, BETWEEN, ",").encode(),
            key=Template(config[BATCH_KEY], _D, null=""),
            divides=config[sinks.DIVIDE],
        )
    headers = shared.pairs_of(HEADERS.name, config[HEADERS], config[SEPARATOR])
    if is_json and "content-type" not in {name.lower() for name, _ in headers}:
        headers += (("Content-Type", "application/json"),)
    copied = {header.strip() for header in config[COPIED].split(",") if header.strip()}
    policy = config[POLICY].upper()
    return SinkPlan(
        method=config[METHOD].upper(),
        url=Template(config[URL], _D, url=True),
        body=json_body if is_json else java_body,
        retry=Retry(
            codes(config[RETRY_ON]),
            config[RETRIES],
            Backoff.fixed(config[BACKOFF])
            if policy == "CONSTANT_VALUE"
            else Backoff(config[BACKOFF], _LONGEST_MS, jitter=Jitter.HALF),
        ),
        headers=sinks.header_templates(headers, _D),
        batch=batch,
        nulls=member(Nulls, config[NULLS]),
        behavior=member(Behavior, config[ERRORS]),
        copied_headers=None if "*" in copied else frozenset(copied),
        replacements=replacers(config[PATTERNS], config[REPLACEMENTS], config[REGEX_SEPARATOR]),
        **sinks.common(config),
    )


def _raw(config: Config, setting: Any, default: str) -> str:
    """A setting's raw text, with surrounding white space."""
    return config.props.get(setting.name, default)


def client_options(config: Config) -> ClientOptions:
    """Options of connections. Raises ConfigInvalid."""
    return shared.client_options(
        config,
        connect_ms=config[CONNECT],
        read_ms=config[READ],
        connections=config[sinks.IN_FLIGHT],
        tls=shared.tls_context(config.props, TLS, aliases=LEGACY_TLS, checks_names=config[HOSTS]),
        proxy=shared.proxy_url(config[PROXY_HOST], config[PROXY_PORT]),
        proxy_user=config[PROXY_USER],
        proxy_password=config[PROXY_PASSWORD],
    )


def auth(config: Config) -> Auth | None:
    """The authentication of requests."""
    match config[AUTH].lower():
        case "basic":
            return basic(config[USER], config[PASSWORD_KEY])
        case "bearer":
            return bearer(shared.given(config, TOKEN))
        case "oauth2":
            return OAuth2(
                TokenOptions(
                    config[TOKEN_URL],
                    config[CLIENT_ID],
                    shared.given(config, CLIENT_SECRET),
                    config[SCOPE] or None,
                    in_header=config[CLIENT_MODE].lower() == "header",
                    token_property=config[TOKEN_PROPERTY],
                    headers=shared.pairs_of(
                        TOKEN_HEADERS.name, config[TOKEN_HEADERS], config[TOKEN_SEPARATOR]
                    ),
                )
            )
    return shared.own_auth(config)


def report_plan(config: Config) -> ReportPlan | None:
    """The topics of reports; None without any. Raises ConfigInvalid."""
    servers = ",".join(config[BOOTSTRAP])
    if not servers:
        return None
    common = {**_plain_settings(config), "bootstrap.servers": servers}
    producer = producer_settings({**config.under("reporter.producer."), **common}, "reporter.")
    admin = admin_settings({**config.under("reporter.admin."), **common}, "reporter.")
    name = config.props.get("name", "")

    def topic(keys: tuple[Any, ...]) -> Topic | None:
        topic_name, replication, partitions, key_format, value_format = (
            config[setting] for setting in keys
        )
        if not topic_name:
            return None
        return Topic(
            topic_name.replace("${connector}", name),
            producer,
            admin,
            key_json=key_format.lower() == "json",
            value_json=value_format.lower() == "json",
            creates=(partitions, replication),
        )

    plan = ReportPlan(
        topic(RESULT), topic(ERROR), error_is_response=config[ERRORS_AS].lower() == "http_response"
    )
    return plan if plan.results or plan.errors else None


def _plain_settings(config: Config) -> dict[str, str]:
    starts = ("bootstrap.", "result.", "error.", "producer.", "admin.")
    return {
        name: value
        for name, value in config.under("reporter.").items()
        if not name.startswith(starts)
    }
