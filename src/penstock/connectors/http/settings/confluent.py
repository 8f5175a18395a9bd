"""The settings of the sink, under the names of Confluent's connector (connectors.md §12.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock.api import Backoff, Jitter
from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    RegexInvalid,
    at_least,
    compile_java,
    invalid,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, OAuth2, TokenOptions, basic, bearer
from penstock.connectors.http.settings import shared, sinks
from penstock.connectors.http.settings.shared import key, member, named
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
from penstock.connectors.http.write.reports import ReportPlan, Topic, client_settings
from penstock.connectors.http.write.sending import codes

_C, _A, _R, _B, _X = "Connection", "Authentication", "Retries", "Batching", "Regex"
_P = "Reporter"
_LONGEST_MS: Final = 60_000  # between retries
_D = Style.DOLLAR
_POLICIES: Final = ("CONSTANT_VALUE", "EXPONENTIAL_WITH_JITTER")
TLS: Final = "https."

URL: Final = key(
    "http.api.url", STRING, REQUIRED, HIGH, _C,
    "The URL, with `${topic}`, `${key}`, `${header.name}` and fields of the value as placeholders.",
    shared.template(_D, url=True),
)  # fmt: skip
METHOD: Final = key(
    "request.method", STRING, "POST", HIGH, _C, "The method of requests.",
    named("POST", "PUT", "PATCH", "DELETE", "GET"), ("POST", "PUT", "PATCH"),
)  # fmt: skip
NULLS: Final = key(
    "behavior.on.null.values", STRING, "ignore", LOW, _C,
    "How to handle records without a value: ignore, log, send a DELETE request to the URL, or "
    "fail.",
    named("fail", "log", "ignore", "delete"), ("fail", "log", "ignore", "delete"),
)  # fmt: skip
ERRORS: Final = key(
    "behavior.on.error", STRING, "fail", LOW, _C,
    "How to handle records that the server refuses. fail: as `errors.tolerance` specifies; an "
    "unreachable server is waited for. ignore, log: skip them, also if the server is unreachable "
    "for more than `max.retries` retries.",
    named("fail", "log", "ignore"), ("fail", "log", "ignore"),
)  # fmt: skip
ERRORS_AS: Final = key(
    "report.errors.as", STRING, "error_string", LOW, _C,
    "What to report in the error topic: a description of the failure, or the response.",
    named("error_string", "http_response"), ("error_string", "http_response"),
)  # fmt: skip
FORMAT: Final = key(
    "request.body.format", STRING, "string", MEDIUM, _C,
    "string: values as strings, structs as Java prints them. json: values as JSON.",
    named("string", "json"), ("string", "json"),
)  # fmt: skip
HEADERS: Final = key(
    "headers", STRING, "", HIGH, _C,
    "Headers of every request, name:value, separated by `header.separator`. Values may contain "
    "placeholders.",
)  # fmt: skip
SEPARATOR: Final = key("header.separator", STRING, "|", HIGH, _C, "Separator between headers.")
COPIED: Final = key(
    "copy.record.headers", STRING, "", LOW, _C,
    "Names of record headers to copy to requests; `*`: all.",
)  # fmt: skip
CONNECT: Final = key(
    "http.connect.timeout.ms", INT, 30_000, LOW, _C, "How long to wait for a connection.",
    at_least(1),
)  # fmt: skip
READ: Final = key(
    "http.request.timeout.ms", INT, 30_000, LOW, _C, "How long to wait for a response.", at_least(1)
)
PROXY_HOST: Final = key("http.proxy.host", STRING, "", HIGH, _C, "An HTTP proxy.")
PROXY_PORT: Final = key("http.proxy.port", INT, 0, HIGH, _C, "The proxy's port.", shared.PORT)
PROXY_USER: Final = key("http.proxy.user", STRING, "", HIGH, _C, "The proxy's user.")
PROXY_PASSWORD: Final = key(
    "http.proxy.password", PASSWORD, None, HIGH, _C, "The proxy user's password."
)
AUTH: Final = key(
    "auth.type", STRING, "none", HIGH, _A, "How requests are authenticated.",
    named("none", "basic", "oauth2", "bearer"), ("none", "basic", "oauth2", "bearer"),
)  # fmt: skip
USER: Final = key("connection.user", STRING, "", HIGH, _A, "The user, for auth.type=basic.")
PASSWORD_KEY: Final = key("connection.password", PASSWORD, None, HIGH, _A, "The user's password.")
TOKEN: Final = key("bearer.token", PASSWORD, None, HIGH, _A, "The token, for auth.type=bearer.")
TOKEN_URL: Final = key(
    "oauth2.token.url", STRING, "", HIGH, _A, "The URL for access tokens.", shared.URL
)
CLIENT_ID: Final = key("oauth2.client.id", STRING, "", HIGH, _A, "The client id.")
CLIENT_SECRET: Final = key("oauth2.client.secret", PASSWORD, None, HIGH, _A, "The client secret.")
TOKEN_PROPERTY: Final = key(
    "oauth2.token.property", STRING, "access_token", HIGH, _A,
    "The property of the response with the token.",
)  # fmt: skip
CLIENT_MODE: Final = key(
    "oauth2.client.auth.mode", STRING, "header", MEDIUM, _A,
    "Where to send client id and secret: in a header, or in the form.",
    named("header", "url"), ("header", "url"),
)  # fmt: skip
SCOPE: Final = key("oauth2.client.scope", STRING, "any", HIGH, _A, "The requested scope.")
TOKEN_HEADERS: Final = key(
    "oauth2.client.headers", STRING, "", LOW, _A, "Headers of requests for tokens, name:value."
)
TOKEN_SEPARATOR: Final = key(
    "oauth2.client.header.separator", STRING, "|", LOW, _A, "Separator between these headers."
)
RETRIES: Final = key(
    "max.retries", INT, 10, MEDIUM, _R, "How many times to retry a request.", at_least(0)
)
BACKOFF: Final = key(
    "retry.backoff.ms", INT, 3_000, MEDIUM, _R, "How long to wait before a retry.", at_least(0)
)
POLICY: Final = key(
    "retry.backoff.policy", STRING, "CONSTANT_VALUE", LOW, _R,
    "Whether the pause is constant, or doubles each time with some jitter.",
    named(*_POLICIES), _POLICIES,
)  # fmt: skip
RETRY_ON: Final = key(
    "retry.on.status.codes", STRING, "400-", MEDIUM, _R,
    "Statuses on which to retry a request: 500,502-504,510-. Other statuses are refusals.",
    shared.readable(codes, "statuses and ranges"),
)  # fmt: skip
BATCH_KEY: Final = key(
    "batch.key.pattern", STRING, "someKey", HIGH, _B,
    "Records for which this template gives the same string share a request.", shared.template(_D),
)  # fmt: skip
BATCH_SIZE: Final = key(
    "batch.max.size", INT, 1, HIGH, _B, "Maximum number of records per request.", at_least(1)
)
PREFIX: Final = key("batch.prefix", STRING, "", HIGH, _B, "The beginning of a batch.")
SUFFIX: Final = key("batch.suffix", STRING, "", HIGH, _B, "The end of a batch.")
BETWEEN: Final = key("batch.separator", STRING, ",", HIGH, _B, "Separator between records.")
AS_ARRAY: Final = key(
    "batch.json.as.array", BOOLEAN, False, HIGH, _B,
    "Whether to send the records of a request as a JSON array, with request.body.format=json.",
)  # fmt: skip
PATTERNS: Final = key(
    "regex.patterns", STRING, "", LOW, _X, "Regular expressions to replace in records."
)
REPLACEMENTS: Final = key(
    "regex.replacements", STRING, "", LOW, _X,
    "The replacements; `${topic}` and `${key}` are placeholders, `$1` is a group.",
)  # fmt: skip
REGEX_SEPARATOR: Final = key(
    "regex.separator", STRING, "~", LOW, _X, "Separator between patterns, and between replacements."
)
BOOTSTRAP: Final = key(
    "reporter.bootstrap.servers", LIST, (), HIGH, _P,
    "The brokers for the report topics. Without it, nothing is reported.",
)  # fmt: skip


def _topic_keys(kind: str, name: str) -> tuple[Any, ...]:
    start = f"reporter.{kind}.topic"
    formats = ("string", "json")
    return (
        key(f"{start}.name", STRING, name, HIGH, _P,
            f"The topic of {'answers' if kind == 'result' else 'failures'}; empty: none. "
            "`${connector}` is the connector's name."),
        key(f"{start}.replication.factor", INT, 3, MEDIUM, _P,
            "The replication factor with which the topic is created.", at_least(1)),
        key(f"{start}.partitions", INT, 1, MEDIUM, _P,
            "The number of partitions with which the topic is created.", at_least(1)),
        key(f"{start}.key.format", STRING, "json", MEDIUM, _P,
            "How keys are written.", named(*formats), formats),
        key(f"{start}.value.format", STRING, "json", MEDIUM, _P,
            "How values are written.", named(*formats), formats),
    )  # fmt: skip


RESULT: Final = _topic_keys("result", "success-responses")
ERROR: Final = _topic_keys("error", "error-responses")
LEGACY_TLS: Final = {
    "https.ssl.keystorefile": "ssl.keystore.location",
    "https.ssl.truststorefile": "ssl.truststore.location",
}
HOSTS: Final = key(
    "https.host.verifier.enabled", BOOLEAN, True, LOW, "TLS",
    "Whether to verify the server's host name.",
)  # fmt: skip
SSL: Final = key("ssl.enabled", BOOLEAN, False, LOW, "TLS", "Ignored: the URL decides.")


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
    URL, METHOD, NULLS, ERRORS, ERRORS_AS, FORMAT, HEADERS, SEPARATOR, COPIED, CONNECT, READ,
    PROXY_HOST, PROXY_PORT, PROXY_USER, PROXY_PASSWORD,
    AUTH, USER, PASSWORD_KEY, TOKEN, TOKEN_URL, CLIENT_ID, CLIENT_SECRET, TOKEN_PROPERTY,
    CLIENT_MODE, SCOPE, TOKEN_HEADERS, TOKEN_SEPARATOR,
    RETRIES, BACKOFF, POLICY, RETRY_ON,
    BATCH_KEY, BATCH_SIZE, PREFIX, SUFFIX, BETWEEN, AS_ARRAY,
    PATTERNS, REPLACEMENTS, REGEX_SEPARATOR,
    BOOTSTRAP, *RESULT, *ERROR, SSL, HOSTS, *ssl_keys(TLS),
    *(key(name, STRING, None, LOW, "TLS", f"Another name of https.{other}.")
      for name, other in LEGACY_TLS.items()),
    *sinks.SINK_KEYS,
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
            return bearer(config[TOKEN])
        case "oauth2":
            return OAuth2(
                TokenOptions(
                    config[TOKEN_URL],
                    config[CLIENT_ID],
                    config[CLIENT_SECRET],
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
    producer_settings = {**config.under("reporter.producer."), **_plain_settings(config)}
    client = {**client_settings(producer_settings, "reporter."), "bootstrap.servers": servers}
    name = config.props.get("name", "")

    def topic(keys: tuple[Any, ...]) -> Topic | None:
        topic_name, replication, partitions, key_format, value_format = (
            config[setting] for setting in keys
        )
        if not topic_name:
            return None
        return Topic(
            topic_name.replace("${connector}", name),
            client,
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
