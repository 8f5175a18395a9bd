"""penstock without the packages of its extra `http`, in a process that cannot import them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from penstock.connectors.http.settings.shared import HTTP

SCRIPT = """
import json, sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiohttp", "h2", "websockets"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None

sys.meta_path.insert(0, Absent())
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
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == 8
    assert all(f"install them with: {HTTP.command}" in each for each in told)
    assert "h2" in told[1]
    assert "websockets" in told[6]


def test_the_extra_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = [each.partition(">")[0] for each in extras[HTTP.name]]
    assert names == ["aiohttp", "httpx[http2]", "websockets"]
    assert f"penstock[{HTTP.name}]" in extras["all"]
