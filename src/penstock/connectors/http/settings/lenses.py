"""The settings of the sink, under the names of Lenses' connector (connectors.md §12.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.api import Backoff, ConfigInvalid
from penstock.api.settings import (
    HIGH,
    LONG,
    LOW,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    checking,
    invalid,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, OAuth2, TokenOptions, basic
from penstock.connectors.http.settings import shared, sinks
from penstock.connectors.http.settings.shared import named
from penstock.connectors.http.templates import Style, Template
from penstock.connectors.http.write.plan import Batch, Nulls, Retry, SinkPlan, template_body
from penstock.connectors.http.write.reports import Kind, ReportPlan, Topic, producer_settings

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


# fmt: off
_HTTP: Final = Group("HTTP", importance=HIGH, numbered=False)
METHOD: Final = _HTTP.text("connect.http.method", "POST",
    "The method of requests.", check=named("POST", "PUT", "PATCH", "GET", "DELETE"),
    offers=("POST", "PUT", "PATCH"))
ENDPOINT: Final = _HTTP.text("connect.http.endpoint", REQUIRED,
    "The URL, a template.", check=shared.template(_M, url=True))
CONTENT: Final = _HTTP.text("connect.http.request.content", REQUIRED,
    "The body, a template. The part between `{{#message}}` and `{{/message}}` is repeated for "
    "each record of a batch.", check=checking("a template", _content_problem))
HEADERS: Final = _HTTP.listing("connect.http.request.headers", (),
    "Headers, name:value; both are templates.")
THRESHOLD: Final = _HTTP.ignored("connect.http.error.threshold", 5,
    "`errors.tolerance` decides about refused records")
SYNC: Final = _HTTP.ignored("connect.http.upload.sync.period", 100,
    "requests are sent as records arrive")
CONNECT: Final = _HTTP.number("connect.http.connection.timeout.ms", 10_000,
    "How long to wait for a connection, and for a response.", at_least=1)
LONGEST: Final = _HTTP.number("connect.http.retries.max.timeout.ms", 30_000,
    "The longest pause before a request is retried.", at_least=0)
RETRIES: Final = _HTTP.number("connect.http.retries.max.retries", 5,
    "How many times to retry a request.", at_least=0)
RETRY_MODE: Final = _HTTP.text("connect.http.retry.mode", "exponential",
    "Whether pauses double or stay the same.", check=named("exponential", "fixed"),
    offers=("exponential", "fixed"))
RETRY_ON: Final = _HTTP.listing(
    "connect.http.retries.on.status.codes", ("408", "429", "502", "504", "500", "503"),
    "Statuses on which to retry a request.", check=checking("statuses", _statuses_problem))
INTERVAL: Final = _HTTP.number("connect.http.retry.fixed.interval.ms", 10_000,
    "The pause with retry mode fixed.", at_least=0)
COUNT: Final = _HTTP.long("connect.http.batch.count", 1,
    "Maximum number of records per request.", at_least=0)
SIZE: Final = _HTTP.long("connect.http.batch.size", 0,
    "Maximum number of bytes per request; 0: no limit.", at_least=0)
TIME: Final = _HTTP.long("connect.http.time.interval", 0,
    "How many milliseconds to wait for more records; at most a minute.", at_least=0)
AUTH: Final = _HTTP.text("connect.http.authentication.type", "none",
    "How requests are authenticated.", check=named(*_AUTHS), offers=_AUTHS)
USER: Final = _HTTP.text("connect.http.authentication.basic.username", "", "The user.")
PASSWORD_KEY: Final = _HTTP.secret("connect.http.authentication.basic.password", None,
    "The user's password.")
TIDY: Final = _HTTP.flag("connect.http.json.tidy", False,
    "Whether to remove a comma before a closing bracket, which batch templates may leave.")
NULL: Final = _HTTP.text("connect.http.null.payload.handler", "error",
    "How templates handle null: fail, or insert nothing, `null` or a string.",
    check=named(*_HANDLERS), offers=_HANDLERS)
NULL_TEXT: Final = _HTTP.text("connect.http.null.payload.handler.custom", "", "That string.")
QUEUE: Final = _HTTP.ignored("connect.http.max.queue.size", 1_000_000,
    "the engine limits pending records", importance=HIGH)
QUEUE_TIMEOUT: Final = _HTTP.ignored("connect.http.max.queue.offer.timeout.ms", 120_000,
    kind=LONG, importance=HIGH)
COPY: Final = _HTTP.flag("connect.http.copy.message.headers", False,
    "Whether to copy record headers to requests.")
_OAUTH: Final = "connect.http.authentication.oauth2."
TOKEN_URL: Final = _HTTP.text(f"{_OAUTH}token.url", "",
    "The URL for access tokens.", check=shared.URL)
CLIENT_ID: Final = _HTTP.text(f"{_OAUTH}client.id", "", "The client id.")
CLIENT_SECRET: Final = _HTTP.secret(f"{_OAUTH}client.secret", None, "The client secret.")
TOKEN_PROPERTY: Final = _HTTP.text(f"{_OAUTH}token.property", "access_token",
    "The property of the response with the token.")
SCOPE: Final = _HTTP.text(f"{_OAUTH}client.scope", "any", "The requested scope.")
TOKEN_HEADERS: Final = _HTTP.listing(f"{_OAUTH}client.headers", (),
    "Headers of requests for tokens.")
TOKEN_SEPARATOR: Final = _HTTP.text(f"{_OAUTH}client.headers.separator", ":",
    "Separator between their names and values.")
_REPORTS: Final = Group("Reports", importance=LOW, numbered=False)


def _report_keys(kind: str) -> tuple[Any, ...]:
    """The settings of the reports about answers, or about failures."""
    start = f"connect.reporting.{kind}.config."
    subject = "answers" if kind == "success" else "failures"
    return (
        _REPORTS.flag(f"{start}enabled", False, f"Whether {subject} are reported."),
        _REPORTS.text(f"{start}bootstrap.servers", "", "The brokers."),
        _REPORTS.text(f"{start}topic", "", "The topic."),
        _REPORTS.number(f"{start}partition", -1, "Its partition; -1: any."),
        _REPORTS.secret(f"{start}sasl.jaas.config", None, "User and password."),
        _REPORTS.text(f"{start}sasl.mechanism", "", "The SASL mechanism."),
    )


SUCCESS: Final = _report_keys("success")
ERROR: Final = _report_keys("error")
# fmt: on


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
    *_HTTP, *_REPORTS, *ssl_keys(), *sinks.SINK_KEYS,
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
                    shared.given(config, CLIENT_SECRET),
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
        given = {
            name: value for name, value in config.under(start).items() if name not in own and value
        }
        if partition < -1:
            raise ConfigInvalid([invalid(f"{start}partition", partition, "-1, or a partition")])
        return Topic(
            name,
            producer_settings({**given, "bootstrap.servers": servers}, start),
            partition=partition if partition >= 0 else None,
        )

    plan = ReportPlan(topic(SUCCESS, "success"), topic(ERROR, "error"), Kind.LENSES)
    return plan if plan.results or plan.errors else None
