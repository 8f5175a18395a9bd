"""The settings of the polling source, under the names of castorm's connector (connectors.md
§12.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from penstock.api.settings import (
    HIGH,
    LONG,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    Key,
    RegexInvalid,
    checking,
    compile_java,
    valid_regex,
)
from penstock.api.tls import ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, OAuth2, TokenOptions
from penstock.connectors.http.pointers import Pointer
from penstock.connectors.http.read.dates import DatePattern, of_millis, zone_of
from penstock.connectors.http.read.freemarker import OffsetTemplate
from penstock.connectors.http.read.plan import (
    Direction,
    Filter,
    ListPlan,
    Pages,
    Paging,
    RequestPlan,
    SourcePlan,
)
from penstock.connectors.http.settings import shared
from penstock.connectors.http.settings.shared import member, named

_P: Final = "com.github.castorm.kafka.connect"


def _classes(*names: str) -> Any:
    """A check for one of these classes, by full or simple name."""
    simple = {name.rpartition(".")[2] for name in names}

    def problem(text: str | None) -> str | None:
        if text is None or text.rpartition(".")[2] in simple:
            return None
        return (
            f"classes other than the connector's are not supported; use {', '.join(sorted(simple))}"
        )

    return checking(", ".join(sorted(simple)), problem)


def _class(group: Group, name: str, default: str, doc: str, *others: str) -> Key[str]:
    """A setting that chooses among the connector's own classes."""
    full = f"{_P}.{default}"
    return group.class_name(name, full, doc, check=_classes(full, *others), importance=LOW)


def _statuses(text: str) -> frozenset[int]:
    """Parses a list of statuses and ranges, `200..299`. Raises ValueError."""
    statuses: set[int] = set()
    for entry in text.split(","):
        first, dots, last = (bound.strip() for bound in entry.partition(".."))
        if not first and not last:
            continue
        low, high = sorted((int(first), int(last) if dots else int(first)))
        statuses.update(range(low, high + 1))
    return frozenset(statuses)


def _map(text: str) -> dict[str, str]:
    """Parses `a=b, c=d`. Raises ValueError."""
    pairs: dict[str, str] = {}
    for entry in text.split(","):
        if not entry.strip():
            continue
        name, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"Incomplete pair: {entry.strip()}")
        pairs[name.strip()] = value.strip()
    return pairs


def _pointers(text: str) -> tuple[Pointer, ...]:
    return tuple(Pointer(path.strip()) for path in text.split(",") if path.strip())


_TEMPLATE: Final = shared.readable(OffsetTemplate, "a template over the offset")
_POINTER: Final = shared.readable(Pointer, "a JSON pointer")
_STATUSES: Final = shared.readable(_statuses, "statuses and ranges")

# fmt: off
_TIMER: Final = Group("Timer", importance=LOW, numbered=False)
TIMER: Final = _class(_TIMER, "http.timer", "timer.AdaptableIntervalTimer",
    "FixedIntervalTimer: the interval never changes.", "FixedIntervalTimer")
INTERVAL: Final = _TIMER.long("http.timer.interval.millis", 60_000,
    "The pause between polls.", at_least=0, importance=HIGH)
CATCHUP: Final = _TIMER.long("http.timer.catchup.interval.millis", 30_000,
    "The pause between polls while records are older than the interval.", at_least=0,
    importance=HIGH)
OLD_INTERVAL: Final = _TIMER.long("http.throttler.interval.millis", None,
    "Old name of http.timer.interval.millis.")
OLD_CATCHUP: Final = _TIMER.long("http.throttler.catchup.interval.millis", None,
    "Old name of http.timer.catchup.interval.millis.")
_REQUEST: Final = Group("Request", importance=HIGH, numbered=False)
INITIAL: Final = _REQUEST.text("http.offset.initial", "",
    "The offset before the first record: key=…, timestamp=….",
    check=shared.readable(_map, "name=value pairs"))
URL: Final = _REQUEST.text("http.request.url", REQUIRED,
    "The URL, a template over the offset.", check=_TEMPLATE)
METHOD: Final = _REQUEST.text("http.request.method", "GET",
    "The method.", check=named("GET", "HEAD", "POST", "PUT", "PATCH"), offers=("GET", "POST"))
HEADERS: Final = _REQUEST.text("http.request.headers", "",
    "Headers, name: value, a template.", check=_TEMPLATE, importance=MEDIUM)
PARAMS: Final = _REQUEST.text("http.request.params", "",
    "The query, a=b&c=d, a template.", check=_TEMPLATE, importance=MEDIUM)
BODY: Final = _REQUEST.text("http.request.body", "",
    "The body, a template.", check=_TEMPLATE, importance=LOW)
FACTORY: Final = _class(
    _REQUEST, "http.request.factory",
    "http.request.template.TemplateHttpRequestFactory",
    "How requests are made.")
TEMPLATES: Final = _class(
    _REQUEST, "http.request.template.factory",
    "http.request.template.freemarker.BackwardsCompatibleFreeMarkerTemplateFactory",
    "NoTemplateFactory: no placeholders.", "FreeMarkerTemplateFactory", "NoTemplateFactory")
_CLIENT: Final = Group("Client", numbered=False)
CLIENT: Final = _class(_CLIENT, "http.client", "http.client.okhttp.OkHttpClient",
    "How requests are sent.")
CONNECT: Final = _CLIENT.long("http.client.connection.timeout.millis", 2_000,
    "How long to wait for a connection.", at_least=0, importance=HIGH)
READ: Final = _CLIENT.long("http.client.read.timeout.millis", 2_000,
    "How long to wait for a response.", at_least=0, importance=HIGH)
TTL: Final = _CLIENT.ignored("http.client.ttl.millis", 300_000,
    "idle connections are closed", kind=LONG)
OLD_TTL: Final = _CLIENT.ignored("http.client.connection.ttl.millis", 300_000,
    "idle connections are closed", kind=LONG)
IDLE: Final = _CLIENT.ignored("http.client.max-idle", 1, "one connection is kept")
PROXY_HOST: Final = _CLIENT.text("http.client.proxy.host", "", "An HTTP proxy.")
PROXY_PORT: Final = _CLIENT.number("http.client.proxy.port", 3128,
    "The proxy's port.", at_least=1, at_most=65_535)
PROXY_USER: Final = _CLIENT.text("http.client.proxy.username", "", "The proxy's user.")
PROXY_PASSWORD: Final = _CLIENT.secret("http.client.proxy.password", None,
    "The proxy user's password.")
KEYSTORE: Final = _CLIENT.text("http.client.keystore", "", "The client's key and certificate.")
KEYSTORE_PASSWORD: Final = _CLIENT.secret("http.client.keystore.password", None,
    "The key store's password.")
_AUTHENTICATION: Final = Group("Authentication", importance=HIGH, numbered=False)
AUTHENTICATOR: Final = _class(
    _AUTHENTICATION, "http.auth", "http.auth.ConfigurableHttpAuthenticator",
    "How requests are authenticated.", "BasicHttpAuthenticator", "NoneHttpAuthenticator")
AUTH: Final = _AUTHENTICATION.text("http.auth.type", "NONE",
    "How requests are authenticated.", check=named("None", "Basic", "OAuth2"),
    offers=("None", "Basic", "OAuth2"), importance=MEDIUM)
USER: Final = _AUTHENTICATION.text("http.auth.user", "", "The user.")
PASSWORD_KEY: Final = _AUTHENTICATION.secret("http.auth.password", None, "The user's password.")
_PENSTOCK: Final = Group("Penstock", importance=LOW, numbered=False)
TOKEN_URL: Final = _PENSTOCK.text("penstock.http.oauth2.token.url", "",
    "The URL for access tokens.", check=shared.URL, importance=MEDIUM)
CLIENT_ID: Final = _PENSTOCK.text("penstock.http.oauth2.client.id", "",
    "The client id.", importance=MEDIUM)
CLIENT_SECRET: Final = _PENSTOCK.secret("penstock.http.oauth2.client.secret", None,
    "The client secret.", importance=MEDIUM)
SCOPE: Final = _PENSTOCK.text("penstock.http.oauth2.scope", "", "The requested scope.")
_RESPONSE: Final = Group("Response", importance=LOW, numbered=False)
PARSER: Final = _class(_RESPONSE, "http.response.parser", "http.response.PolicyHttpResponseParser",
    "How responses are parsed.", "KvHttpResponseParser")
POLICY_PARSER: Final = _class(
    _RESPONSE, "http.response.policy.parser",
    "http.response.KvHttpResponseParser",
    "How responses are parsed.")
POLICY: Final = _class(
    _RESPONSE, "http.response.policy", "http.response.StatusCodeHttpResponsePolicy",
    "Which responses are parsed.")
PROCESS: Final = _RESPONSE.text("http.response.policy.codes.process", "200..299",
    "Statuses of responses with records.", check=_STATUSES, importance=HIGH)
SKIP: Final = _RESPONSE.text("http.response.policy.codes.skip", "300..399",
    "Statuses to skip. Other statuses fail the task, except 408, 429 and 5xx, which are retried.",
    check=_STATUSES, importance=HIGH)
LIST: Final = _RESPONSE.text("http.response.list.pointer", "/",
    "JSON pointer to the list of records.", check=_POINTER, importance=HIGH)
RECORD: Final = _RESPONSE.text("http.response.record.pointer", "/",
    "JSON pointer to the record in an item.", check=_POINTER, importance=HIGH)
RECORD_KEY: Final = _RESPONSE.text("http.response.record.key.pointer", None,
    "JSON pointers to the key in an item; several are joined by +.",
    check=shared.readable(_pointers, "JSON pointers"), importance=HIGH)
RECORD_TIME: Final = _RESPONSE.text("http.response.record.timestamp.pointer", None,
    "JSON pointer to the timestamp in an item.", check=_POINTER, importance=MEDIUM)
RECORD_OFFSET: Final = _RESPONSE.text("http.response.record.offset.pointer", "",
    "JSON pointers to the offset in an item: key=/id, timestamp=/updated. For use in templates.",
    check=shared.readable(
        lambda text: [Pointer(path) for path in _map(text).values()], "name=pointer pairs"),
    importance=MEDIUM)
RECORD_PARSER: Final = _class(
    _RESPONSE, "http.response.record.parser",
    "http.response.jackson.JacksonKvRecordHttpResponseParser",
    "How items are parsed.")
TIME_PARSER: Final = _class(
    _RESPONSE, "http.response.record.timestamp.parser",
    "http.response.timestamp.EpochMillisOrDelegateTimestampParser",
    "How timestamps are parsed: ms since 1970, by pattern, one or the other, or in a string.",
    "EpochMillisTimestampParser", "DateTimeFormatterTimestampParser", "RegexTimestampParser")
TIME_DELEGATE: Final = _class(
    _RESPONSE, "http.response.record.timestamp.parser.delegate",
    "http.response.timestamp.DateTimeFormatterTimestampParser",
    "How timestamps that are not numbers are parsed.", "RegexTimestampParser")
PATTERN: Final = _RESPONSE.text(
    "http.response.record.timestamp.parser.pattern", "yyyy-MM-dd'T'HH:mm:ss[.SSS]X",
    "The timestamp pattern.", check=shared.readable(DatePattern, "a date pattern"))
ZONE: Final = _RESPONSE.text("http.response.record.timestamp.parser.zone", "UTC",
    "The zone of timestamps without one.", check=shared.readable(zone_of, "a time zone"))
REGEX: Final = _RESPONSE.text("http.response.record.timestamp.parser.regex", ".*",
    "Where a string contains the timestamp: the first group.", check=valid_regex())
REGEX_DELEGATE: Final = _class(
    _RESPONSE, "http.response.record.timestamp.parser.regex.delegate",
    "http.response.timestamp.DateTimeFormatterTimestampParser",
    "How that timestamp is parsed.")
DIRECTION: Final = _RESPONSE.text("http.response.list.order.direction", "IMPLICIT",
    "The order of the list by time. IMPLICIT: determined from its first and last items.",
    check=named("ASC", "DESC", "IMPLICIT"), offers=("ASC", "DESC", "IMPLICIT"))
_RECORDS: Final = Group("Records", importance=LOW, numbered=False)
SORTER: Final = _class(
    _RECORDS, "http.record.sorter", "http.record.OrderDirectionSourceRecordSorter",
    "How records are sorted.")
FILTER: Final = _class(
    _RECORDS, "http.record.filter.factory", "http.record.OffsetRecordFilterFactory",
    "Which records are new.", "OffsetTimestampRecordFilterFactory",
    "PassthroughRecordFilterFactory")
MAPPER: Final = _class(
    _RECORDS, "http.response.record.mapper", "http.record.SchemedKvSourceRecordMapper",
    "Whether keys and values are structs or strings.", "StringKvSourceRecordMapper")
TOPIC: Final = _RECORDS.text("kafka.topic", REQUIRED, "The topic.", importance=HIGH)
PAGE_MODE: Final = _PENSTOCK.text("penstock.http.page.mode", "none",
    "How to find further pages: link: the Link header; next: the body contains the URL; cursor: "
    "the body contains a cursor; page: by page number, until a page has no items.",
    check=named("none", "link", "next", "cursor", "page"),
    offers=("none", "link", "next", "cursor", "page"), importance=MEDIUM)
PAGE_POINTER: Final = _PENSTOCK.text("penstock.http.page.pointer", None,
    "JSON pointer to the next URL or the cursor in the body.", check=_POINTER, importance=MEDIUM)
PAGE_PARAMETER: Final = _PENSTOCK.text("penstock.http.page.parameter", "page",
    "The query parameter for the cursor or the page number.")
PAGE_FIRST: Final = _PENSTOCK.number("penstock.http.page.first", 1,
    "The number of the first page.", at_least=0)
PAGE_MAX: Final = _PENSTOCK.number("penstock.http.page.max", 1_000,
    "Maximum number of pages per poll; the task fails if there are more.", at_least=1)
RATE: Final = _PENSTOCK.double("penstock.http.requests.per.second", 0.0,
    "Maximum number of requests per second; 0: no limit. `Retry-After` is always respected.",
    at_least=0)
CONDITIONAL: Final = _PENSTOCK.flag("penstock.http.conditional", True,
    "Whether to send conditional requests (`ETag`, `Last-Modified`).")
RETRY: Final = _PENSTOCK.number("penstock.http.retry.backoff.ms", 1_000,
    "The shortest pause before a failed request is retried.", at_least=0)
# fmt: on


def _rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    mode = str(parsed.get(PAGE_MODE.name) or "none").lower()
    if mode in ("next", "cursor") and not parsed.get(PAGE_POINTER.name):
        yield PAGE_POINTER.name, f"{PAGE_POINTER.name} must be set with {PAGE_MODE.name}={mode}"
    kind = str(parsed.get(AUTH.name) or "none").lower()
    needed = {"basic": (USER,), "oauth2": (TOKEN_URL, CLIENT_ID, CLIENT_SECRET)}.get(kind, ())
    for setting in needed:
        if not parsed.get(setting.name):
            yield setting.name, f"{setting.name} must be set when {AUTH.name} is {kind}"
    url = str(parsed.get(URL.name) or "")
    if url and "${" not in url and not url.startswith(("http://", "https://")):
        yield URL.name, f"Invalid value {url} for configuration {URL.name}: it is not a URL"


SOURCE: Final = ConfigDef(
    *(*_TIMER, *_REQUEST, *_CLIENT, *_AUTHENTICATION, *_RESPONSE, *_RECORDS),
    *(PAGE_MODE, PAGE_POINTER, PAGE_PARAMETER, PAGE_FIRST, PAGE_MAX, RATE, CONDITIONAL, RETRY),
    *(TOKEN_URL, CLIENT_ID, CLIENT_SECRET, SCOPE),
    *(*shared.COMMON, *ssl_keys(shared.OWN_TLS)),
    rules=(_rule, shared.api_key_rule, shared.http2_rule(URL)),
)  # fmt: skip


def source_plan(config: Config) -> SourcePlan:
    """The plan of a polling source."""
    is_plain = _simple(config, TEMPLATES) == "NoTemplateFactory"

    def template(setting: Key[Any]) -> OffsetTemplate:
        return OffsetTemplate(config[setting], plain=is_plain)

    interval = _first(config, OLD_INTERVAL, INTERVAL)
    fixed = _simple(config, TIMER) == "FixedIntervalTimer"
    pointer = config[PAGE_POINTER]
    timestamp = config[RECORD_TIME]
    return SourcePlan(
        topic=config[TOPIC],
        request=RequestPlan(
            config[METHOD].upper(),
            template(URL),
            template(HEADERS),
            template(PARAMS),
            template(BODY),
            config[CONDITIONAL],
        ),
        records=ListPlan(
            items=Pointer(config[LIST]),
            record=Pointer(config[RECORD]),
            keys=_pointers(config[RECORD_KEY] or ""),
            timestamp=None if timestamp is None else Pointer(timestamp),
            offsets={name: Pointer(text) for name, text in _map(config[RECORD_OFFSET]).items()},
            parse_time=_time_parser(config),
            direction=member(Direction, config[DIRECTION]),
            filter={
                "OffsetRecordFilterFactory": Filter.OFFSET,
                "OffsetTimestampRecordFilterFactory": Filter.TIMESTAMP,
                "PassthroughRecordFilterFactory": Filter.NONE,
            }[_simple(config, FILTER)],
        ),
        pages=Pages(
            member(Paging, config[PAGE_MODE]),
            None if pointer is None else Pointer(pointer),
            config[PAGE_PARAMETER],
            config[PAGE_FIRST],
            config[PAGE_MAX],
        ),
        initial=_map(config[INITIAL]),
        interval_ms=interval,
        catchup_ms=interval if fixed else _first(config, OLD_CATCHUP, CATCHUP),
        process=_statuses(config[PROCESS]),
        skip=_statuses(config[SKIP]),
        structs=_simple(config, MAPPER) != "StringKvSourceRecordMapper",
        per_second=config[RATE],
        backoff_ms=config[RETRY],
    )


def _first(config: Config, older: Key[Any], newer: Key[Any]) -> int:
    return int(config[older] if newer not in config and config[older] is not None
               else config[newer])  # fmt: skip


def _simple(config: Config, setting: Key[Any]) -> str:
    return str(config[setting]).rpartition(".")[2]


def _time_parser(config: Config) -> Callable[[str], datetime]:
    pattern = DatePattern(config[PATTERN], config[ZONE])

    def regex(text: str) -> datetime:
        try:
            match = compile_java(config[REGEX]).search(text)
        except RegexInvalid as error:
            raise ValueError(str(error)) from error
        if match is None or not match.groups():
            raise ValueError(f"'{text}' does not match {REGEX.name}, which needs a group")
        return pattern.parse(match[1])

    named_parsers: dict[str, Callable[[str], datetime]] = {
        "EpochMillisTimestampParser": lambda text: of_millis(int(text)),
        "DateTimeFormatterTimestampParser": pattern.parse,
        "RegexTimestampParser": regex,
    }
    parser_name = _simple(config, TIME_PARSER)
    if parser_name != "EpochMillisOrDelegateTimestampParser":
        return named_parsers[parser_name]
    delegate = named_parsers[_simple(config, TIME_DELEGATE)]
    number = re.compile(r"[+-]?\d+")
    return lambda text: of_millis(int(text)) if number.fullmatch(text) else delegate(text)


def client_options(config: Config) -> ClientOptions:
    """Options of connections. Raises ConfigInvalid."""
    aliases = {
        KEYSTORE.name: "ssl.keystore.location",
        KEYSTORE_PASSWORD.name: "ssl.keystore.password",
    }
    return shared.client_options(
        config,
        connect_ms=config[CONNECT],
        read_ms=config[READ],
        connections=1,
        redirects=True,
        tls=shared.tls_context(config.props, shared.OWN_TLS, aliases=aliases),
        proxy=shared.proxy_url(config[PROXY_HOST], config[PROXY_PORT]),
        proxy_user=config[PROXY_USER],
        proxy_password=config[PROXY_PASSWORD],
    )


def auth(config: Config) -> Auth | None:
    """The authentication of requests."""
    match config[AUTH].lower():
        case "basic":
            return shared.basic_auth(config[USER], config[PASSWORD_KEY])
        case "oauth2":
            return OAuth2(
                TokenOptions(
                    config[TOKEN_URL], config[CLIENT_ID],
                    shared.given(config, CLIENT_SECRET), config[SCOPE] or None,
                )
            )  # fmt: skip
    return shared.own_auth(config)
