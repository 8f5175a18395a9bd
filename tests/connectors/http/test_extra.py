"""penstock without the packages of its extra `http`, in a process that cannot import them."""

from __future__ import annotations

import json

from penstock.connectors.http.settings.shared import HTTP
from tests.connectors.absent import extras, without

PACKAGES = ("aiohttp", "h2", "websockets")
SCRIPT = """
import json
from penstock.api import NotInstalled
from penstock.connectors.http.sink import AivenHttpSink, ConfluentHttpSink, LensesHttpSink
from penstock.connectors.http.source import CastormHttpSource
from penstock.connectors.http.stream import SseSource, WebhookSource, WebSocketSource

told = []
for cls, given in (
    (ConfluentHttpSink, {"http.api.url": "http://h/"}),
    (ConfluentHttpSink, {"http.api.url": "https://h/", "penstock.http.version": "2"}),
    (AivenHttpSink, {"http.url": "http://h/", "http.authorization.type": "none"}),
    (LensesHttpSink, {"connect.http.endpoint": "http://h/", "connect.http.request.content": "x"}),
    (CastormHttpSource, {"http.request.url": "http://h/", "kafka.topic": "t"}),
    (SseSource, {"sse.url": "http://h/", "topic": "t"}),
    (WebSocketSource, {"websocket.url": "ws://h/", "topic": "t"}),
    (WebhookSource, {"webhook.port": "1", "webhook.auth.type": "none", "topic": "t"}),
):
    config = cls.plugin.config.parse(given)
    try:
        cls().check_installed(config)
    except NotInstalled as error:
        told.append(str(error))
print(json.dumps(told))
"""


def test_without_its_packages_a_configuration_is_refused_with_the_command() -> None:
    reported = json.loads(without(PACKAGES, SCRIPT))
    assert len(reported) == 8
    assert all(f"install them with: {HTTP.command}" in each for each in reported)
    assert "h2" in reported[1]
    assert "websockets" in reported[6]


def test_the_extra_is_the_projects() -> None:
    declared = extras()
    names = [each.partition(">")[0] for each in declared[HTTP.name]]
    assert names == ["aiohttp", "httpx[http2]", "websockets"]
    assert f"penstock[{HTTP.name}]" in declared["all"]
