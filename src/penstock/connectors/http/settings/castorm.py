"""The settings of the polling source, under the names of castorm's connector (connectors.md
§12.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from penstock.api.settings import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    REQUIRED,
    STRING,
    Config,
    ConfigDef,
    Key,
    RegexInvalid,
    at_least,
    between,
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
from penstock.connectors.http.settings.shared import OWN, key, member, named

_P: Final = "com.github.castorm.kafka.connect"
_T, _R, _A, _C, _L, _K = "Timer", "Request", "Authentication", "Client", "Response", "Records"


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


def _class_key(name: str, default: str, others: tuple[str, ...], group: str, doc: str) -> Key[Any]:
    full = f"{_P}.{default}"
    return key(name, CLASS, full, LOW, group, doc, _classes(full, *others))


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

TIMER: Final = _class_key(
    "http.timer", "timer.AdaptableIntervalTimer", ("FixedIntervalTimer",), _T,
    "FixedIntervalTimer: the interval never changes.",
)  # fmt: skip
INTERVAL: Final = key(
    "http.timer.interval.millis", LONG, 60_000, HIGH, _T, "The pause between polls.", at_least(0)
)
CATCHUP: Final = key(
    "http.timer.catchup.interval.millis", LONG, 30_000, HIGH, _T,
    "The pause between polls while records are older than the interval.", at_least(0),
)  # fmt: skip
OLD_INTERVAL: Final = key(
    "http.throttler.interval.millis", LONG, None, LOW, _T,
    "Old name of http.timer.interval.millis.",
)  # fmt: skip
OLD_CATCHUP: Final = key(
    "http.throttler.catchup.interval.millis", LONG, None, LOW, _T,
    "Old name of http.timer.catchup.interval.millis.",
)  # fmt: skip
INITIAL: Final = key(
    "http.offset.initial", STRING, "", HIGH, _R,
    "The offset before the first record: key=…, timestamp=….",
    shared.readable(_map, "name=value pairs"),
)  # fmt: skip
URL: Final = key(
    "http.request.url", STRING, REQUIRED, HIGH, _R, "The URL, a template over the offset.",
    _TEMPLATE,
)  # fmt: skip
METHOD: Final = key(
    "http.request.method", STRING, "GET", HIGH, _R, "The method.",
    named("GET", "HEAD", "POST", "PUT", "PATCH"), ("GET", "POST"),
)  # fmt: skip
HEADERS: Final = key(
    "http.request.headers", STRING, "", MEDIUM, _R, "Headers, name: value, a template.", _TEMPLATE
)
PARAMS: Final = key(
    "http.request.params", STRING, "", MEDIUM, _R, "The query, a=b&c=d, a template.", _TEMPLATE
)
BODY: Final = key("http.request.body", STRING, "", LOW, _R, "The body, a template.", _TEMPLATE)
FACTORY: Final = _class_key(
    "http.request.factory", "http.request.template.TemplateHttpRequestFactory", (), _R,
    "How requests are made.",
)  # fmt: skip
TEMPLATES: Final = _class_key(
    "http.request.template.factory",
    "http.request.template.freemarker.BackwardsCompatibleFreeMarkerTemplateFactory",
    ("FreeMarkerTemplateFactory", "NoTemplateFactory"), _R, "NoTemplateFactory: no placeholders.",
)  # fmt: skip
CLIENT: Final = _class_key(
    "http.client", "http.client.okhttp.OkHttpClient", (), _C, "How requests are sent."
)
CONNECT: Final = key(
    "http.client.connection.timeout.millis", LONG, 2_000, HIGH, _C,
    "How long to wait for a connection.", at_least(0),
)  # fmt: skip
READ: Final = key(
    "http.client.read.timeout.millis", LONG, 2_000, HIGH, _C, "How long to wait for a response.",
    at_least(0),
)  # fmt: skip
TTL: Final = key(
    "http.client.ttl.millis", LONG, 300_000, LOW, _C, "Ignored: idle connections are closed."
)
OLD_TTL: Final = key(
    "http.client.connection.ttl.millis", LONG, 300_000, LOW, _C,
    "Ignored: idle connections are closed.",
)  # fmt: skip
IDLE: Final = key("http.client.max-idle", INT, 1, LOW, _C, "Ignored: one connection is kept.")
PROXY_HOST: Final = key("http.client.proxy.host", STRING, "", MEDIUM, _C, "An HTTP proxy.")
PROXY_PORT: Final = key(
    "http.client.proxy.port", INT, 3128, MEDIUM, _C, "The proxy's port.", between(1, 65_535)
)
PROXY_USER: Final = key("http.client.proxy.username", STRING, "", MEDIUM, _C, "The proxy's user.")
PROXY_PASSWORD: Final = key(
    "http.client.proxy.password", PASSWORD, None, MEDIUM, _C, "The proxy user's password."
)
KEYSTORE: Final = key(
    "http.client.keystore", STRING, "", MEDIUM, _C, "The client's key and certificate."
)
KEYSTORE_PASSWORD: Final = key(
    "http.client.keystore.password", PASSWORD, None, MEDIUM, _C, "The key store's password."
)
AUTHENTICATOR: Final = _class_key(
    "http.auth", "http.auth.ConfigurableHttpAuthenticator",
    ("BasicHttpAuthenticator", "NoneHttpAuthenticator"), _A, "How requests are authenticated.",
)  # fmt: skip
AUTH: Final = key(
    "http.auth.type", STRING, "NONE", MEDIUM, _A, "How requests are authenticated.",
    named("None", "Basic", "OAuth2"), ("None", "Basic", "OAuth2"),
)  # fmt: skip
USER: Final = key("http.auth.user", STRING, "", HIGH, _A, "The user.")
PASSWORD_KEY: Final = key("http.auth.password", PASSWORD, None, HIGH, _A, "The user's password.")
TOKEN_URL: Final = key(
    "penstock.http.oauth2.token.url", STRING, "", MEDIUM, OWN, "The URL for access tokens.",
    shared.URL,
)  # fmt: skip
CLIENT_ID: Final = key("penstock.http.oauth2.client.id", STRING, "", MEDIUM, OWN, "The client id.")
CLIENT_SECRET: Final = key(
    "penstock.http.oauth2.client.secret", PASSWORD, None, MEDIUM, OWN, "The client secret."
)
SCOPE: Final = key("penstock.http.oauth2.scope", STRING, "", LOW, OWN, "The requested scope.")
PARSER: Final = _class_key(
    "http.response.parser", "http.response.PolicyHttpResponseParser", ("KvHttpResponseParser",),
    _L, "How responses are parsed.",
)  # fmt: skip
POLICY_PARSER: Final = _class_key(
    "http.response.policy.parser",
    "http.response.KvHttpResponseParser",
    (),
    _L,
    "How responses are parsed.",
)
POLICY: Final = _class_key(
    "http.response.policy", "http.response.StatusCodeHttpResponsePolicy", (), _L,
    "Which responses are parsed.",
)  # fmt: skip
PROCESS: Final = key(
    "http.response.policy.codes.process", STRING, "200..299", HIGH, _L,
    "Statuses of responses with records.",
    _STATUSES,
)  # fmt: skip
SKIP: Final = key(
    "http.response.policy.codes.skip", STRING, "300..399", HIGH, _L,
    "Statuses to skip. Other statuses fail the task, except 408, 429 and 5xx, which are retried.",
    _STATUSES,
)  # fmt: skip
LIST: Final = key(
    "http.response.list.pointer", STRING, "/", HIGH, _L,
    "JSON pointer to the list of records.", _POINTER,
)  # fmt: skip
RECORD: Final = key(
    "http.response.record.pointer", STRING, "/", HIGH, _L, "JSON pointer to the record in an item.",
    _POINTER,
)  # fmt: skip
RECORD_KEY: Final = key(
    "http.response.record.key.pointer", STRING, None, HIGH, _L,
    "JSON pointers to the key in an item; several are joined by +.",
    shared.readable(_pointers, "JSON pointers"),
)  # fmt: skip
RECORD_TIME: Final = key(
    "http.response.record.timestamp.pointer", STRING, None, MEDIUM, _L,
    "JSON pointer to the timestamp in an item.", _POINTER,
)  # fmt: skip
RECORD_OFFSET: Final = key(
    "http.response.record.offset.pointer", STRING, "", MEDIUM, _L,
    "JSON pointers to the offset in an item: key=/id, timestamp=/updated. For use in templates.",
    shared.readable(lambda text: [Pointer(path) for path in _map(text).values()],
                    "name=pointer pairs"),
)  # fmt: skip
RECORD_PARSER: Final = _class_key(
    "http.response.record.parser", "http.response.jackson.JacksonKvRecordHttpResponseParser", (),
    _L, "How items are parsed.",
)  # fmt: skip
TIME_PARSER: Final = _class_key(
    "http.response.record.timestamp.parser",
    "http.response.timestamp.EpochMillisOrDelegateTimestampParser",
    ("EpochMillisTimestampParser", "DateTimeFormatterTimestampParser", "RegexTimestampParser"),
    _L, "How timestamps are parsed: ms since 1970, by pattern, one or the other, or in a string.",
)  # fmt: skip
TIME_DELEGATE: Final = _class_key(
    "http.response.record.timestamp.parser.delegate",
    "http.response.timestamp.DateTimeFormatterTimestampParser", ("RegexTimestampParser",), _L,
    "How timestamps that are not numbers are parsed.",
)  # fmt: skip
PATTERN: Final = key(
    "http.response.record.timestamp.parser.pattern", STRING, "yyyy-MM-dd'T'HH:mm:ss[.SSS]X", LOW,
    _L, "The timestamp pattern.", shared.readable(DatePattern, "a date pattern"),
)  # fmt: skip
ZONE: Final = key(
    "http.response.record.timestamp.parser.zone", STRING, "UTC", LOW, _L,
    "The zone of timestamps without one.", shared.readable(zone_of, "a time zone"),
)  # fmt: skip
REGEX: Final = key(
    "http.response.record.timestamp.parser.regex", STRING, ".*", LOW, _L,
    "Where a string contains the timestamp: the first group.", valid_regex(),
)  # fmt: skip
REGEX_DELEGATE: Final = _class_key(
    "http.response.record.timestamp.parser.regex.delegate",
    "http.response.timestamp.DateTimeFormatterTimestampParser", (), _L,
    "How that timestamp is parsed.",
)  # fmt: skip
DIRECTION: Final = key(
    "http.response.list.order.direction", STRING, "IMPLICIT", LOW, _L,
    "The order of the list by time. IMPLICIT: determined from its first and last items.",
    named("ASC", "DESC", "IMPLICIT"), ("ASC", "DESC", "IMPLICIT"),
)  # fmt: skip
SORTER: Final = _class_key(
    "http.record.sorter", "http.record.OrderDirectionSourceRecordSorter", (), _K,
    "How records are sorted.",
)  # fmt: skip
FILTER: Final = _class_key(
    "http.record.filter.factory", "http.record.OffsetRecordFilterFactory",
    ("OffsetTimestampRecordFilterFactory", "PassthroughRecordFilterFactory"), _K,
    "Which records are new.",
)  # fmt: skip
MAPPER: Final = _class_key(
    "http.response.record.mapper", "http.record.SchemedKvSourceRecordMapper",
    ("StringKvSourceRecordMapper",), _K, "Whether keys and values are structs or strings.",
)  # fmt: skip
TOPIC: Final = key("kafka.topic", STRING, REQUIRED, HIGH, _K, "The topic.")
PAGE_MODE: Final = key(
    "penstock.http.page.mode", STRING, "none", MEDIUM, OWN,
    "How to find further pages: link: the Link header; next: the body contains the URL; cursor: "
    "the body contains a cursor; page: by page number, until a page has no items.",
    named("none", "link", "next", "cursor", "page"), ("none", "link", "next", "cursor", "page"),
)  # fmt: skip
PAGE_POINTER: Final = key(
    "penstock.http.page.pointer", STRING, None, MEDIUM, OWN,
    "JSON pointer to the next URL or the cursor in the body.", _POINTER,
)  # fmt: skip
PAGE_PARAMETER: Final = key(
    "penstock.http.page.parameter", STRING, "page", LOW, OWN,
    "The query parameter for the cursor or the page number.",
)  # fmt: skip
PAGE_FIRST: Final = key(
    "penstock.http.page.first", INT, 1, LOW, OWN, "The number of the first page.", at_least(0)
)
PAGE_MAX: Final = key(
    "penstock.http.page.max", INT, 1_000, LOW, OWN,
    "Maximum number of pages per poll; the task fails if there are more.", at_least(1),
)  # fmt: skip
RATE: Final = key(
    "penstock.http.requests.per.second", DOUBLE, 0.0, LOW, OWN,
    "Maximum number of requests per second; 0: no limit. `Retry-After` is always respected.",
    at_least(0),
)  # fmt: skip
CONDITIONAL: Final = key(
    "penstock.http.conditional", BOOLEAN, True, LOW, OWN,
    "Whether to send conditional requests (`ETag`, `Last-Modified`).",
)  # fmt: skip
RETRY: Final = key(
    "penstock.http.retry.backoff.ms", INT, 1_000, LOW, OWN,
    "The shortest pause before a failed request is retried.", at_least(0),
)  # fmt: skip


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
    TIMER, INTERVAL, CATCHUP, OLD_INTERVAL, OLD_CATCHUP, INITIAL, URL, METHOD, HEADERS, PARAMS,
    BODY, FACTORY, TEMPLATES, CLIENT, CONNECT, READ, TTL, OLD_TTL, IDLE, PROXY_HOST, PROXY_PORT,
    PROXY_USER, PROXY_PASSWORD, KEYSTORE, KEYSTORE_PASSWORD, AUTHENTICATOR, AUTH, USER,
    PASSWORD_KEY, PARSER, POLICY_PARSER, POLICY, PROCESS, SKIP, LIST, RECORD, RECORD_KEY,
    RECORD_TIME, RECORD_OFFSET, RECORD_PARSER, TIME_PARSER, TIME_DELEGATE, PATTERN, ZONE, REGEX,
    REGEX_DELEGATE, DIRECTION, SORTER, FILTER, MAPPER, TOPIC,
    PAGE_MODE, PAGE_POINTER, PAGE_PARAMETER, PAGE_FIRST, PAGE_MAX, RATE, CONDITIONAL, RETRY,
    TOKEN_URL, CLIENT_ID, CLIENT_SECRET, SCOPE, *shared.COMMON, *ssl_keys(shared.OWN_TLS),
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
                    config[TOKEN_URL], config[CLIENT_ID], config[CLIENT_SECRET],
                    config[SCOPE] or None,
                )
            )  # fmt: skip
    return shared.own_auth(config)
