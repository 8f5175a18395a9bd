"""The settings of the sink, under the names of Lenses' connector (connectors.md §12.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api import Backoff, ConfigInvalid
from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    at_least,
    checking,
    invalid,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, OAuth2, TokenOptions, basic
from penstock.connectors.http.settings import shared, sinks
from penstock.connectors.http.settings.shared import key, named
from penstock.connectors.http.templates import Style, Template
from penstock.connectors.http.write.plan import Batch, Nulls, Retry, SinkPlan, template_body
from penstock.connectors.http.write.reports import Kind, ReportPlan, Topic, client_settings

_G: Final = "HTTP"
_M: Final = Style.BRACES
_LOOP: Final = re.compile(r"\{\{#message\}\}(.*?)\{\{/message\}\}", re.DOTALL)
_MAX: Final = 1_000_000
_AUTHS: Final = ("none", "basic", "oauth2")
_HANDLERS: Final = ("error", "empty", "null", "custom")


def _statuses_problem(entries: tuple[str, ...] | None) -> str | None:
    bad = [
        entry for entry in entries or () if not entry.isdecimal() or not 100 <= int(entry) <= 599
    ]
    return f"invalid statuses: {', '.join(bad)}" if bad else None


def _content_problem(text: str | None) -> str | None:
    if text is None:
        return None
    if ("{{#message}}" in text) != ("{{/message}}" in text):
        return "{{#message}} and {{/message}} must be used together"
    try:
        for part in _split(text):
            Template(part, _M)
    except ValueError as error:
        return str(error)
    return None


def _split(text: str) -> tuple[str, ...]:
    """The body of a loop, the text before it and after it; or the whole text without a loop."""
    loop = _LOOP.search(text)
    if loop is None:
        return (text,)
    return loop[1], text[: loop.start()], text[loop.end() :]


METHOD: Final = key(
    "connect.http.method", STRING, "POST", HIGH, _G, "The method of requests.",
    named("POST", "PUT", "PATCH", "GET", "DELETE"), ("POST", "PUT", "PATCH"),
)  # fmt: skip
ENDPOINT: Final = key(
    "connect.http.endpoint", STRING, REQUIRED, HIGH, _G, "The URL, a template.",
    shared.template(_M, url=True),
)  # fmt: skip
CONTENT: Final = key(
    "connect.http.request.content", STRING, REQUIRED, HIGH, _G,
    "The body, a template. The part between `{{#message}}` and `{{/message}}` is repeated for each "
    "record of a batch.", checking("a template", _content_problem),
)  # fmt: skip
HEADERS: Final = key(
    "connect.http.request.headers", LIST, (), HIGH, _G, "Headers, name:value; both are templates."
)
THRESHOLD: Final = key(
    "connect.http.error.threshold", INT, 5, LOW, _G,
    "Ignored: `errors.tolerance` decides about refused records.",
)  # fmt: skip
SYNC: Final = key(
    "connect.http.upload.sync.period", INT, 100, LOW, _G,
    "Ignored: requests are sent as records arrive.",
)  # fmt: skip
CONNECT: Final = key(
    "connect.http.connection.timeout.ms", INT, 10_000, HIGH, _G,
    "How long to wait for a connection, and for a response.", at_least(1),
)  # fmt: skip
LONGEST: Final = key(
    "connect.http.retries.max.timeout.ms", INT, 30_000, HIGH, _G,
    "The longest pause before a request is retried.", at_least(0),
)  # fmt: skip
RETRIES: Final = key(
    "connect.http.retries.max.retries", INT, 5, HIGH, _G,
    "How many times to retry a request.", at_least(0),
)  # fmt: skip
RETRY_MODE: Final = key(
    "connect.http.retry.mode", STRING, "exponential", HIGH, _G,
    "Whether pauses double or stay the same.", named("exponential", "fixed"),
    ("exponential", "fixed"),
)  # fmt: skip
RETRY_ON: Final = key(
    "connect.http.retries.on.status.codes", LIST,
    ("408", "429", "502", "504", "500", "503"), HIGH, _G,
    "Statuses on which to retry a request.", checking("statuses", _statuses_problem),
)  # fmt: skip
INTERVAL: Final = key(
    "connect.http.retry.fixed.interval.ms", INT, 10_000, HIGH, _G,
    "The pause with retry mode fixed.", at_least(0),
)  # fmt: skip
COUNT: Final = key(
    "connect.http.batch.count", LONG, 1, HIGH, _G,
    "Maximum number of records per request.", at_least(0),
)  # fmt: skip
SIZE: Final = key(
    "connect.http.batch.size", LONG, 0, HIGH, _G,
    "Maximum number of bytes per request; 0: no limit.", at_least(0),
)  # fmt: skip
TIME: Final = key(
    "connect.http.time.interval", LONG, 0, HIGH, _G,
    "How many milliseconds to wait for more records; at most a minute.", at_least(0),
)  # fmt: skip
AUTH: Final = key(
    "connect.http.authentication.type", STRING, "none", HIGH, _G,
    "How requests are authenticated.", named(*_AUTHS), _AUTHS,
)  # fmt: skip
USER: Final = key("connect.http.authentication.basic.username", STRING, "", HIGH, _G, "The user.")
PASSWORD_KEY: Final = key(
    "connect.http.authentication.basic.password", PASSWORD, None, HIGH, _G, "The user's password."
)
TIDY: Final = key(
    "connect.http.json.tidy", BOOLEAN, False, HIGH, _G,
    "Whether to remove a comma before a closing bracket, which batch templates may leave.",
)  # fmt: skip
NULL: Final = key(
    "connect.http.null.payload.handler", STRING, "error", HIGH, _G,
    "How templates handle null: fail, or insert nothing, `null` or a string.",
    named(*_HANDLERS), _HANDLERS,
)  # fmt: skip
NULL_TEXT: Final = key(
    "connect.http.null.payload.handler.custom", STRING, "", HIGH, _G, "That string."
)
QUEUE: Final = key(
    "connect.http.max.queue.size", INT, 1_000_000, HIGH, _G,
    "Ignored: the engine limits pending records.",
)  # fmt: skip
QUEUE_TIMEOUT: Final = key(
    "connect.http.max.queue.offer.timeout.ms", LONG, 120_000, HIGH, _G, "Ignored."
)
COPY: Final = key(
    "connect.http.copy.message.headers", BOOLEAN, False, HIGH, _G,
    "Whether to copy record headers to requests.",
)  # fmt: skip
_OAUTH: Final = "connect.http.authentication.oauth2."
TOKEN_URL: Final = key(
    f"{_OAUTH}token.url", STRING, "", HIGH, _G, "The URL for access tokens.", shared.URL
)
CLIENT_ID: Final = key(f"{_OAUTH}client.id", STRING, "", HIGH, _G, "The client id.")
CLIENT_SECRET: Final = key(f"{_OAUTH}client.secret", PASSWORD, None, HIGH, _G, "The client secret.")
TOKEN_PROPERTY: Final = key(
    f"{_OAUTH}token.property", STRING, "access_token", HIGH, _G,
    "The property of the response with the token.",
)  # fmt: skip
SCOPE: Final = key(f"{_OAUTH}client.scope", STRING, "any", HIGH, _G, "The requested scope.")
TOKEN_HEADERS: Final = key(
    f"{_OAUTH}client.headers", LIST, (), HIGH, _G, "Headers of requests for tokens."
)
TOKEN_SEPARATOR: Final = key(
    f"{_OAUTH}client.headers.separator", STRING, ":", HIGH, _G,
    "Separator between their names and values.",
)  # fmt: skip


def _report_keys(kind: str) -> tuple[Any, ...]:
    start = f"connect.reporting.{kind}.config."
    subject = "answers" if kind == "success" else "failures"
    return (
        key(f"{start}enabled", BOOLEAN, False, LOW, "Reports", f"Whether {subject} are reported."),
        key(f"{start}bootstrap.servers", STRING, "", LOW, "Reports", "The brokers."),
        key(f"{start}topic", STRING, "", LOW, "Reports", "The topic."),
        key(f"{start}partition", INT, -1, LOW, "Reports", "Its partition; -1: any."),
        key(f"{start}sasl.jaas.config", PASSWORD, None, LOW, "Reports", "User and password."),
        key(f"{start}sasl.mechanism", STRING, "", LOW, "Reports", "The SASL mechanism."),
    )


SUCCESS: Final = _report_keys("success")
ERROR: Final = _report_keys("error")


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    kind = str(parsed.get(AUTH.name) or "none").lower()
    needed = {"basic": (USER,), "oauth2": (TOKEN_URL, CLIENT_ID, CLIENT_SECRET)}.get(kind, ())
    for setting in needed:
        if not parsed.get(setting.name):
            yield setting.name, f"{setting.name} must be set when {AUTH.name} is {kind}"
    count = parsed.get(COUNT.name)
    text = str(parsed.get(CONTENT.name) or "")
    if isinstance(count, int) and count > 1 and "{{#message}}" not in text:
        yield (
            COUNT.name,
            f"Batches need {{{{#message}}}} and {{{{/message}}}} in {CONTENT.name}: set "
            f"{COUNT.name} to 1, or add a repeated part to the body",
        )
    for keys in (SUCCESS, ERROR):
        if parsed.get(keys[0].name):
            for setting in keys[1:3]:
                if not parsed.get(setting.name):
                    yield setting.name, f"{setting.name} must be set when {keys[0].name} is true"


LENSES_SINK: Final = ConfigDef(
    METHOD, ENDPOINT, CONTENT, HEADERS, THRESHOLD, SYNC, CONNECT, LONGEST, RETRIES, RETRY_MODE,
    RETRY_ON, INTERVAL, COUNT, SIZE, TIME, AUTH, USER, PASSWORD_KEY, TIDY, NULL, NULL_TEXT, QUEUE,
    QUEUE_TIMEOUT, COPY, TOKEN_URL, CLIENT_ID, CLIENT_SECRET, TOKEN_PROPERTY, SCOPE, TOKEN_HEADERS,
    TOKEN_SEPARATOR, *SUCCESS, *ERROR, *ssl_keys(), *sinks.SINK_KEYS,
    rules=(
        _rule, shared.api_key_rule, shared.http2_rule(ENDPOINT),
        sinks.header_rule(HEADERS, ",", ":", _M),
    ),
)  # fmt: skip


def sink_plan(config: Config) -> SinkPlan:
    """The plan of a sink task."""
    null = {"error": None, "empty": "", "null": "null", "custom": config[NULL_TEXT]}[
        config[NULL].lower()
    ]
    inner, *around = _split(config.props[CONTENT.name])
    batch = None
    if around:
        count, size = config[COUNT], config[SIZE]
        batch = Batch(
            count or _MAX,
            around[0].encode(),
            around[1].encode(),
            b"",
            max_bytes=size,
            tidy=config[TIDY],
            divides=config[sinks.DIVIDE],
        )
    common = sinks.common(config)
    common["linger_ms"] = min(config[TIME], 60_000) or common["linger_ms"]
    pairs = shared.pairs_of(HEADERS.name, config[HEADERS], ",")
    is_fixed = config[RETRY_MODE].lower() == "fixed"
    return SinkPlan(
        method=config[METHOD].upper(),
        url=Template(config[ENDPOINT], _M, url=True, null=null),
        body=template_body(Template(inner, _M, null=null)),
        retry=Retry(
            frozenset(int(status) for status in config[RETRY_ON]),
            config[RETRIES],
            Backoff.fixed(config[INTERVAL])
            if is_fixed
            else Backoff(min(1_000, config[LONGEST]), config[LONGEST]),
        ),
        headers=sinks.header_templates(pairs, _M, null),
        batch=batch,
        nulls=Nulls.SEND,
        copied_headers=None if config[COPY] else frozenset(),
        **common,
    )


def client_options(config: Config) -> ClientOptions:
    """Options of connections. Raises ConfigInvalid."""
    return shared.client_options(
        config,
        connect_ms=config[CONNECT],
        read_ms=config[CONNECT],
        connections=config[sinks.IN_FLIGHT],
        tls=shared.tls_context(config.props, ""),
    )


def auth(config: Config) -> Auth | None:
    """The authentication of requests."""
    match config[AUTH].lower():
        case "basic":
            return basic(config[USER], config[PASSWORD_KEY])
        case "oauth2":
            return OAuth2(
                TokenOptions(
                    config[TOKEN_URL],
                    config[CLIENT_ID],
                    config[CLIENT_SECRET],
                    config[SCOPE] or None,
                    token_property=config[TOKEN_PROPERTY],
                    headers=shared.pairs_of(
                        TOKEN_HEADERS.name, config[TOKEN_HEADERS], ",", config[TOKEN_SEPARATOR]
                    ),
                )
            )
    return shared.own_auth(config)


def report_plan(config: Config) -> ReportPlan | None:
    """The topics of reports; None without any. Raises ConfigInvalid."""

    def topic(keys: tuple[Any, ...], kind: str) -> Topic | None:
        enabled, servers, name, partition, *_ = (config[setting] for setting in keys)
        if not enabled:
            return None
        start = f"connect.reporting.{kind}.config."
        own = {"enabled", "bootstrap.servers", "topic", "partition"}
        producer_settings = {
            name: value for name, value in config.under(start).items() if name not in own and value
        }
        if partition < -1:
            raise ConfigInvalid([invalid(f"{start}partition", partition, "-1, or a partition")])
        return Topic(
            name,
            {**client_settings(producer_settings, start), "bootstrap.servers": servers},
            partition=partition if partition >= 0 else None,
        )

    plan = ReportPlan(topic(SUCCESS, "success"), topic(ERROR, "error"), Kind.LENSES)
    return plan if plan.results or plan.errors else None
