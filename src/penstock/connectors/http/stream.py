"""Penstock's own sources of pushed data: server-sent events, WebSockets, webhooks."""

from __future__ import annotations

from collections.abc import Collection

from penstock.api import (
    VERSION,
    Offsets,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.http.live.events import EventReader
from penstock.connectors.http.live.webhook import HookReader
from penstock.connectors.http.live.websocket import SocketReader
from penstock.connectors.http.settings import live, shared


class _Live(SourceConnector):
    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        return True


class SseSource(_Live):
    """Reads server-sent events."""

    plugin = Plugin(
        class_name="io.penstock.http.SseSourceConnector",
        version=VERSION,
        config=live.SSE_SOURCE,
        extra=shared.HTTP,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return shared.MODULES

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        live.sse_options(config)
        return [config.props]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return EventReader(
            config[live.TOPIC],
            config[live.SSE_URL],
            live.headers_of(config, live.SSE_HEADERS),
            config[live.SSE_KINDS],
            live.sse_options(config),
            live.sse_auth(config),
            context,
            buffer_bytes=config[live.SSE_BUFFER],
            reconnect_ms=config[live.SSE_RECONNECT],
        )


class WebSocketSource(_Live):
    """Reads the messages of a WebSocket."""

    plugin = Plugin(
        class_name="io.penstock.http.WebSocketSourceConnector",
        version=VERSION,
        config=live.WEBSOCKET_SOURCE,
        extra=shared.HTTP,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ("websockets",)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        live.socket_plan(config)
        return [config.props]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return SocketReader(live.socket_plan(config), live.socket_auth(config), context)


class WebhookSource(_Live):
    """Accepts HTTP requests, and responds once their records are stored in Kafka."""

    plugin = Plugin(
        class_name="io.penstock.http.WebhookSourceConnector",
        version=VERSION,
        config=live.WEBHOOK_SOURCE,
        extra=shared.HTTP,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return shared.MODULES

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        live.hook_plan(config)
        return [config.props]  # a port has one listener

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return HookReader(live.hook_plan(config), context)
