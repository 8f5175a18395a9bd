"""The settings of penstock's own sources: events, WebSockets, webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.api.settings import (
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
    Key,
    Secret,
    at_least,
    between,
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
from penstock.connectors.http.settings.shared import key, member, named

TOPIC: Final = key("topic", STRING, REQUIRED, HIGH, "Topic", "The topic.", non_empty())
_POINTER: Final = shared.readable(Pointer, "a JSON pointer")
_BUFFER: Final = (
    "Maximum number of bytes of messages waiting to be polled; reading pauses at this limit."
)


def _header_problem(entries: tuple[str, ...] | None) -> str | None:
    bad = [entry for entry in entries or () if ":" not in entry]
    return f"'{bad[0]}' is not name:value" if bad else None


_HEADERS: Final = checking("name:value pairs", _header_problem)

# Server-sent events.
SSE_URL: Final = key(
    "sse.url", STRING, REQUIRED, HIGH, "Events", "The URL of the event stream.", shared.URL
)
SSE_HEADERS: Final = key(
    "sse.headers", LIST, (), MEDIUM, "Events", "Headers of the request, name:value.", _HEADERS
)
SSE_KINDS: Final = key(
    "sse.events", LIST, (), MEDIUM, "Events", "The event types to read; empty: all."
)
SSE_USER: Final = key(
    "sse.user", STRING, "", MEDIUM, "Events", "The user, for basic authentication."
)
SSE_PASSWORD: Final = key("sse.password", PASSWORD, None, MEDIUM, "Events", "The user's password.")
SSE_CONNECT: Final = key(
    "sse.connect.timeout.ms", INT, 10_000, LOW, "Events", "How long to wait for a connection.",
    at_least(1),
)  # fmt: skip
SSE_IDLE: Final = key(
    "sse.idle.timeout.ms", INT, 0, LOW, "Events",
    "After how long without data to reconnect; 0: never.", at_least(0),
)  # fmt: skip
SSE_RECONNECT: Final = key(
    "sse.reconnect.ms", INT, 1_000, LOW, "Events",
    "The first pause before reconnecting; the server may specify another.", at_least(0),
)  # fmt: skip
SSE_BUFFER: Final = key("sse.buffer.bytes", INT, 16 << 20, LOW, "Events", _BUFFER, at_least(1))
SSE_SOURCE: Final = ConfigDef(
    SSE_URL, SSE_HEADERS, SSE_KINDS, SSE_USER, SSE_PASSWORD, SSE_CONNECT, SSE_IDLE, SSE_RECONNECT,
    SSE_BUFFER, TOPIC, shared.MAX_RESPONSE, shared.BEARER, shared.API_KEY_NAME,
    shared.API_KEY_VALUE, shared.API_KEY_IN, *ssl_keys(shared.OWN_TLS),
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


WS_URL: Final = key(
    "websocket.url", STRING, REQUIRED, HIGH, "WebSocket", "The URL.",
    checking("a URL of ws or wss", _socket_problem),
)  # fmt: skip
WS_HEADERS: Final = key(
    "websocket.headers", LIST, (), MEDIUM, "WebSocket", "Headers, name:value.", _HEADERS
)
WS_PROTOCOLS: Final = key(
    "websocket.subprotocols", LIST, (), LOW, "WebSocket", "The subprotocols to offer."
)
WS_SUBSCRIBE: Final = key(
    "websocket.subscribe", STRING, "", MEDIUM, "WebSocket",
    "Messages to send first, one per line: templates over the offset, ${offset.id!'0'}.",
    shared.readable(lambda text: [OffsetTemplate(line) for line in text.splitlines()],
                    "templates over the offset"),
)  # fmt: skip
WS_OFFSET: Final = key(
    "websocket.offset.pointer", STRING, None, MEDIUM, "WebSocket",
    "JSON pointer to the offset in a message, the `id` of templates.", _POINTER,
)  # fmt: skip
WS_KEY: Final = key(
    "websocket.key.pointer", STRING, None, MEDIUM, "WebSocket",
    "JSON pointer to the key in a message.", _POINTER,
)  # fmt: skip
WS_CONNECT: Final = key(
    "websocket.connect.timeout.ms", INT, 10_000, LOW, "WebSocket",
    "How long to wait for a connection.", at_least(1),
)  # fmt: skip
WS_PING: Final = key(
    "websocket.ping.ms", INT, 20_000, LOW, "WebSocket",
    "How often to ping the server; 0: never.", at_least(0),
)  # fmt: skip
WS_RECONNECT: Final = key(
    "websocket.reconnect.ms", INT, 1_000, LOW, "WebSocket",
    "The first pause before reconnecting.", at_least(0),
)  # fmt: skip
WS_BUFFER: Final = key(
    "websocket.buffer.bytes", INT, 16 << 20, LOW, "WebSocket", _BUFFER, at_least(1)
)
WEBSOCKET_SOURCE: Final = ConfigDef(
    WS_URL, WS_HEADERS, WS_PROTOCOLS, WS_SUBSCRIBE, WS_OFFSET, WS_KEY, WS_CONNECT, WS_PING,
    WS_RECONNECT, WS_BUFFER, TOPIC, shared.MAX_RESPONSE, shared.BEARER, shared.API_KEY_NAME,
    shared.API_KEY_VALUE, shared.API_KEY_IN, *ssl_keys(shared.OWN_TLS),
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
HOST: Final = key(
    "webhook.host", STRING, "127.0.0.1", HIGH, "Webhook",
    "The address to listen at; 0.0.0.0: all of the machine's.",
)  # fmt: skip
PORT: Final = key("webhook.port", INT, REQUIRED, HIGH, "Webhook", "The port.", between(1, 65_535))
PATH: Final = key(
    "webhook.path", STRING, "/", MEDIUM, "Webhook", "The path.", checking("a path", _path_problem)
)
ACCESS: Final = key(
    "webhook.auth.type", STRING, REQUIRED, HIGH, "Webhook",
    "How requests must authenticate: user and password, a token, a signature, or not at all.",
    named(*_ACCESS), _ACCESS,
)  # fmt: skip
HOOK_USER: Final = key(
    "webhook.auth.user", STRING, "", MEDIUM, "Webhook", "The user, for webhook.auth.type=basic."
)
HOOK_SECRET: Final = key(
    "webhook.auth.secret", PASSWORD, None, HIGH, "Webhook",
    "The password, the token, or the signature key.",
)  # fmt: skip
SIGNATURE: Final = key(
    "webhook.hmac.header", STRING, "X-Hub-Signature-256", MEDIUM, "Webhook",
    "The header with the signature of the body: hexadecimal, with or without `sha256=`, or base64.",
    non_empty(),
)  # fmt: skip
ALGORITHM: Final = key(
    "webhook.hmac.algorithm", STRING, "sha256", LOW, "Webhook", "The hash algorithm of signatures.",
    named(*_ALGORITHMS), _ALGORITHMS,
)  # fmt: skip
FORMAT: Final = key(
    "webhook.body.format", STRING, "string", MEDIUM, "Webhook",
    "How a body is converted: to a string, a schemaless value parsed from JSON, or bytes.",
    named(*_FORMATS), _FORMATS,
)  # fmt: skip
KEY_HEADER: Final = key(
    "webhook.key.header", STRING, "", LOW, "Webhook", "The header with the key."
)
KEY_POINTER: Final = key(
    "webhook.key.pointer", STRING, None, LOW, "Webhook",
    "JSON pointer to the key in the body.", _POINTER,
)  # fmt: skip
COPIED: Final = key(
    "webhook.headers", LIST, (), LOW, "Webhook", "Names of request headers to copy to records."
)
MAX_BYTES: Final = key(
    "webhook.max.bytes", INT, 1 << 20, MEDIUM, "Webhook",
    "Maximum size of a body in bytes; larger requests are refused (413).", at_least(1),
)  # fmt: skip
MOST: Final = key(
    "webhook.max.pending", INT, 1_000, MEDIUM, "Webhook",
    "Maximum number of requests waiting to be stored in Kafka; others must retry later (503).",
    at_least(1),
)  # fmt: skip
TIMEOUT: Final = key(
    "webhook.timeout.ms", INT, 30_000, LOW, "Webhook",
    "Maximum time for storing a request in Kafka; after that its sender must retry (503).",
    at_least(1),
)  # fmt: skip
RETRY_AFTER: Final = key(
    "webhook.retry.after.seconds", INT, 1, LOW, "Webhook",
    "The `Retry-After` of these responses.", at_least(0),
)  # fmt: skip
HOOK_TLS: Final = "webhook."


def _hook_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    kind = str(parsed.get(ACCESS.name) or "none").lower()
    secret = parsed.get(HOOK_SECRET.name)
    if kind != "none" and (not isinstance(secret, Secret) or not secret.value):
        yield HOOK_SECRET.name, f"{HOOK_SECRET.name} must be set when {ACCESS.name} is {kind}"
    if kind == "basic" and not parsed.get(HOOK_USER.name):
        yield HOOK_USER.name, f"{HOOK_USER.name} must be set when {ACCESS.name} is {kind}"


WEBHOOK_SOURCE: Final = ConfigDef(
    HOST, PORT, PATH, ACCESS, HOOK_USER, HOOK_SECRET, SIGNATURE, ALGORITHM, FORMAT, KEY_HEADER,
    KEY_POINTER, COPIED, MAX_BYTES, MOST, TIMEOUT, RETRY_AFTER, TOPIC,
    *ssl_keys(HOOK_TLS),
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
