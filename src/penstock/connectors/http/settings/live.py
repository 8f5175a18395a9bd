"""The settings of penstock's own sources: events, WebSockets, webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    Key,
    Secret,
    checking,
    non_empty,
)
from penstock.api.tls import TlsSettings, server_context, ssl_keys
from penstock.connectors.http.client.access import ClientOptions
from penstock.connectors.http.client.auth import Auth, Fixed
from penstock.connectors.http.live.webhook import Access, Format, HookPlan
from penstock.connectors.http.live.websocket import SocketPlan
from penstock.connectors.http.pointers import Pointer
from penstock.connectors.http.read.freemarker import OffsetTemplate
from penstock.connectors.http.settings import shared
from penstock.connectors.http.settings.shared import member, named

# fmt: off
_TOPIC: Final = Group("Topic", numbered=False)
TOPIC: Final = _TOPIC.text("topic", REQUIRED, "The topic.", check=non_empty(), importance=HIGH)
_POINTER: Final = shared.readable(Pointer, "a JSON pointer")
_BUFFER: Final = (
    "Maximum number of bytes of messages waiting to be polled; reading pauses at this limit."
)


def _header_problem(entries: tuple[str, ...] | None) -> str | None:
    bad = [entry for entry in entries or () if ":" not in entry]
    return f"'{bad[0]}' is not name:value" if bad else None


_HEADERS: Final = checking("name:value pairs", _header_problem)

# Server-sent events.
_EVENTS: Final = Group("Events", numbered=False)
SSE_URL: Final = _EVENTS.text("sse.url", REQUIRED,
    "The URL of the event stream.", check=shared.URL, importance=HIGH)
SSE_HEADERS: Final = _EVENTS.listing("sse.headers", (),
    "Headers of the request, name:value.", check=_HEADERS)
SSE_KINDS: Final = _EVENTS.listing("sse.events", (), "The event types to read; empty: all.")
SSE_USER: Final = _EVENTS.text("sse.user", "", "The user, for basic authentication.")
SSE_PASSWORD: Final = _EVENTS.secret("sse.password", None, "The user's password.")
SSE_CONNECT: Final = _EVENTS.number("sse.connect.timeout.ms", 10_000,
    "How long to wait for a connection.", at_least=1, importance=LOW)
SSE_IDLE: Final = _EVENTS.number("sse.idle.timeout.ms", 0,
    "After how long without data to reconnect; 0: never.", at_least=0, importance=LOW)
SSE_RECONNECT: Final = _EVENTS.number("sse.reconnect.ms", 1_000,
    "The first pause before reconnecting; the server may specify another.", at_least=0,
    importance=LOW)
SSE_BUFFER: Final = _EVENTS.number("sse.buffer.bytes", 16 << 20,
    _BUFFER, at_least=1, importance=LOW)
SSE_SOURCE: Final = ConfigDef(
    *_EVENTS, TOPIC, *shared.LIVE, *ssl_keys(shared.OWN_TLS),
    rules=(shared.api_key_rule,),
)  # fmt: skip


def sse_options(config: Config) -> ClientOptions:
    """Options of the connection."""
    return ClientOptions(
        connect_ms=config[SSE_CONNECT],
        read_ms=config[SSE_IDLE],
        connections=1,
        tls=shared.tls_context(config.props, shared.OWN_TLS),
        max_bytes=config[shared.MAX_RESPONSE],
    )


def sse_auth(config: Config) -> Auth | None:
    """The authentication of requests."""
    return shared.own_auth(config) or shared.basic_auth(config[SSE_USER], config[SSE_PASSWORD])


def headers_of(config: Config, setting: Key[Any]) -> tuple[tuple[str, str], ...]:
    """The headers of a setting."""
    return shared.pairs_of(setting.name, config[setting], ",")


# WebSockets.
def _socket_problem(text: str | None) -> str | None:
    if not text:
        return None
    try:
        parts = urlsplit(text)
        if parts.scheme in ("ws", "wss") and parts.hostname and parts.port != 0:
            return None
    except ValueError:
        pass
    return "it is not a URL of a WebSocket: ws://host:port/path or wss://host:port/path"


_WEBSOCKET: Final = Group("WebSocket", importance=LOW, numbered=False)
WS_URL: Final = _WEBSOCKET.text("websocket.url", REQUIRED,
    "The URL.", check=checking("a URL of ws or wss", _socket_problem), importance=HIGH)
WS_HEADERS: Final = _WEBSOCKET.listing("websocket.headers", (),
    "Headers, name:value.", check=_HEADERS, importance=MEDIUM)
WS_PROTOCOLS: Final = _WEBSOCKET.listing("websocket.subprotocols", (), "The subprotocols to offer.")
WS_SUBSCRIBE: Final = _WEBSOCKET.text("websocket.subscribe", "",
    "Messages to send first, one per line: templates over the offset, ${offset.id!'0'}.",
    check=shared.readable(
        lambda text: [OffsetTemplate(line) for line in text.splitlines()],
        "templates over the offset"),
    importance=MEDIUM)
WS_OFFSET: Final = _WEBSOCKET.text("websocket.offset.pointer", None,
    "JSON pointer to the offset in a message, the `id` of templates.", check=_POINTER,
    importance=MEDIUM)
WS_KEY: Final = _WEBSOCKET.text("websocket.key.pointer", None,
    "JSON pointer to the key in a message.", check=_POINTER, importance=MEDIUM)
WS_CONNECT: Final = _WEBSOCKET.number("websocket.connect.timeout.ms", 10_000,
    "How long to wait for a connection.", at_least=1)
WS_PING: Final = _WEBSOCKET.number("websocket.ping.ms", 20_000,
    "How often to ping the server; 0: never.", at_least=0)
WS_RECONNECT: Final = _WEBSOCKET.number("websocket.reconnect.ms", 1_000,
    "The first pause before reconnecting.", at_least=0)
WS_BUFFER: Final = _WEBSOCKET.number("websocket.buffer.bytes", 16 << 20, _BUFFER, at_least=1)
WEBSOCKET_SOURCE: Final = ConfigDef(
    *_WEBSOCKET, TOPIC, *shared.LIVE, *ssl_keys(shared.OWN_TLS),
    rules=(shared.api_key_rule,),
)  # fmt: skip


def socket_plan(config: Config) -> SocketPlan:
    """The plan of a WebSocket source. Raises ConfigInvalid."""
    offset, key = config[WS_OFFSET], config[WS_KEY]
    return SocketPlan(
        config[TOPIC],
        config[WS_URL],
        headers_of(config, WS_HEADERS),
        tuple(OffsetTemplate(line) for line in config[WS_SUBSCRIBE].splitlines() if line.strip()),
        None if offset is None else Pointer(offset),
        None if key is None else Pointer(key),
        config[WS_PROTOCOLS],
        config[shared.MAX_RESPONSE],
        config[WS_BUFFER],
        config[WS_RECONNECT],
        config[WS_CONNECT],
        config[WS_PING],
        shared.tls_context(config.props, shared.OWN_TLS),
    )


def socket_auth(config: Config) -> Fixed | None:
    """The authentication of the handshake."""
    auth = shared.own_auth(config)
    return auth if isinstance(auth, Fixed) else None


# Webhooks.
def _path_problem(text: str | None) -> str | None:
    if text is None or (text.startswith("/") and not any(char in text for char in "{}?# ")):
        return None
    return "it is not a path: /hooks/orders"


_ACCESS: Final = ("none", "basic", "bearer", "hmac")
_FORMATS: Final = ("string", "json", "bytes")
_ALGORITHMS: Final = ("sha1", "sha256", "sha512")
_WEBHOOK: Final = Group("Webhook", numbered=False)
HOST: Final = _WEBHOOK.text("webhook.host", "127.0.0.1",
    "The address to listen at; 0.0.0.0: all of the machine's.", importance=HIGH)
PORT: Final = _WEBHOOK.number("webhook.port", REQUIRED,
    "The port.", at_least=1, at_most=65_535, importance=HIGH)
PATH: Final = _WEBHOOK.text("webhook.path", "/",
    "The path.", check=checking("a path", _path_problem))
ACCESS: Final = _WEBHOOK.text("webhook.auth.type", REQUIRED,
    "How requests must authenticate: user and password, a token, a signature, or not at all.",
    check=named(*_ACCESS), offers=_ACCESS, importance=HIGH)
HOOK_USER: Final = _WEBHOOK.text("webhook.auth.user", "", "The user, for webhook.auth.type=basic.")
HOOK_SECRET: Final = _WEBHOOK.secret("webhook.auth.secret", None,
    "The password, the token, or the signature key.", importance=HIGH)
SIGNATURE: Final = _WEBHOOK.text("webhook.hmac.header", "X-Hub-Signature-256",
    "The header with the signature of the body: hexadecimal, with or without `sha256=`, or "
    "base64.", check=non_empty())
ALGORITHM: Final = _WEBHOOK.text("webhook.hmac.algorithm", "sha256",
    "The hash algorithm of signatures.", check=named(*_ALGORITHMS), offers=_ALGORITHMS,
    importance=LOW)
FORMAT: Final = _WEBHOOK.text("webhook.body.format", "string",
    "How a body is converted: to a string, a schemaless value parsed from JSON, or bytes.",
    check=named(*_FORMATS), offers=_FORMATS)
KEY_HEADER: Final = _WEBHOOK.text("webhook.key.header", "",
    "The header with the key.", importance=LOW)
KEY_POINTER: Final = _WEBHOOK.text("webhook.key.pointer", None,
    "JSON pointer to the key in the body.", check=_POINTER, importance=LOW)
COPIED: Final = _WEBHOOK.listing("webhook.headers", (),
    "Names of request headers to copy to records.", importance=LOW)
MAX_BYTES: Final = _WEBHOOK.number("webhook.max.bytes", 1 << 20,
    "Maximum size of a body in bytes; larger requests are refused (413).", at_least=1)
MOST: Final = _WEBHOOK.number("webhook.max.pending", 1_000,
    "Maximum number of requests waiting to be stored in Kafka; others must retry later (503).",
    at_least=1)
TIMEOUT: Final = _WEBHOOK.number("webhook.timeout.ms", 30_000,
    "Maximum time for storing a request in Kafka; after that its sender must retry (503).",
    at_least=1, importance=LOW)
RETRY_AFTER: Final = _WEBHOOK.number("webhook.retry.after.seconds", 1,
    "The `Retry-After` of these responses.", at_least=0, importance=LOW)
# fmt: on
HOOK_TLS: Final = "webhook."


def _hook_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    kind = str(parsed.get(ACCESS.name) or "none").lower()
    secret = parsed.get(HOOK_SECRET.name)
    if kind != "none" and (not isinstance(secret, Secret) or not secret.value):
        yield HOOK_SECRET.name, f"{HOOK_SECRET.name} must be set when {ACCESS.name} is {kind}"
    if kind == "basic" and not parsed.get(HOOK_USER.name):
        yield HOOK_USER.name, f"{HOOK_USER.name} must be set when {ACCESS.name} is {kind}"


WEBHOOK_SOURCE: Final = ConfigDef(
    *_WEBHOOK, TOPIC, *ssl_keys(HOOK_TLS),
    rules=(_hook_rule,),
)  # fmt: skip


def hook_plan(config: Config) -> HookPlan:
    """The plan of a webhook. Raises ConfigInvalid."""
    tls_settings = shared.typed(
        {
            name.removeprefix(HOOK_TLS): value
            for name, value in config.props.items()
            if name.startswith(f"{HOOK_TLS}ssl.") and value
        }
    )
    pointer = config[KEY_POINTER]
    return HookPlan(
        topic=config[TOPIC],
        host=config[HOST],
        port=config[PORT],
        path=config[PATH],
        access=member(Access, config[ACCESS]),
        user=config[HOOK_USER],
        secret=config[HOOK_SECRET] or Secret(""),
        signature_header=config[SIGNATURE],
        algorithm=config[ALGORITHM].lower(),
        format=member(Format, config[FORMAT]),
        key_header=config[KEY_HEADER],
        key=None if pointer is None else Pointer(pointer),
        copied={name.lower(): name for name in config[COPIED]},
        max_bytes=config[MAX_BYTES],
        most=config[MOST],
        timeout_ms=config[TIMEOUT],
        retry_after_s=config[RETRY_AFTER],
        tls=server_context(TlsSettings(tls_settings, HOOK_TLS)) if tls_settings else None,
    )
