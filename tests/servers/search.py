"""An Elasticsearch or OpenSearch for tests: a node in one process on loopback.

It starts in some ten seconds, so the tests of a run share one (`shared`). It has no security: tests
of users and certificates bring their own servers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx

from penstock.host import jars
from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import wait_until

PRODUCTS: Final = ("opensearch", "elasticsearch")
_START_S: Final = 120.0
_STOP_S: Final = 30.0
_PROGRAM: Final = """\
import PACKAGE.common.settings.Settings;
import PACKAGE.env.Environment;
import PACKAGE.index.reindex.ReindexPlugin;
import PACKAGE.node.InternalSettingsPreparer;
import PACKAGE.node.Node;
import PACKAGE.plugins.Plugin;
import PACKAGE.transport.Netty4Plugin;
import java.util.Collection;
import java.util.List;
import java.util.Map;

public class SearchServer {
  static class OneNode extends Node {
    OneNode(Environment environment, Collection<Class<? extends Plugin>> plugins) {
      super(environment, plugins, false);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Settings settings = Settings.builder()
        .put("path.home", arguments[0])
        .put("http.port", arguments[1])
        .put("transport.port", arguments[2])
        .put("cluster.name", "penstock")
        .put("node.name", "node")
        .put("discovery.type", "single-node")
        .put("network.host", "127.0.0.1")
        .put("http.type", "netty4")
        .put("transport.type", "netty4")
        .put("cluster.routing.allocation.disk.threshold_enabled", false)
        .build();
    Node node = new OneNode(
        InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "node"),
        List.of(Netty4Plugin.class, ReindexPlugin.class));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        node.close();
      } catch (Exception error) {
        error.printStackTrace();
      }
    }));
    node.start();
    Thread.sleep(Long.MAX_VALUE);
  }
}
"""
_PACKAGES: Final = {
    "opensearch": "org.opensearch",
    "elasticsearch": "org.elasticsearch",
}


class SearchServer:
    """A node, started with `start` or as a context manager. It keeps its port and documents across
    restarts, even after `kill`."""

    def __init__(
        self,
        product: str = "opensearch",
        *,
        heap: str = "512m",
        options: Sequence[str] = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    ) -> None:
        self.product = product
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._heap = heap
        self._options = tuple(options)
        self._folder = tempfile.TemporaryDirectory(prefix=f"penstock-{product}-")
        self._process: Process | None = None
        self._http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def start(self) -> None:
        """Starts the node, and returns when it answers."""
        folder = Path(self._folder.name)
        program = folder / "SearchServer.java"
        program.write_text(self._program())
        classes = os.pathsep.join(
            str(jar) for jar in sorted(jars.folder(self.product).glob("*.jar"))
        )
        command = [jars.java(), f"-Xms{self._heap}", f"-Xmx{self._heap}", *self._options]
        command += ["-cp", classes, str(program), str(folder), str(self.port), str(free_port())]
        self._process = process = Process(command, folder / "log")
        process.start()

        def answers() -> bool:
            assert process.alive, f"{self.product} has ended: {(folder / 'log').read_text()}"
            with contextlib.suppress(httpx.TransportError):
                return str(self._http.get("/_cluster/health").json()["status"]) != "red"
            return False

        wait_until(answers, _START_S, self.product)

    def _program(self) -> str:
        text = _PROGRAM.replace("PACKAGE", _PACKAGES[self.product])
        if self.product == "elasticsearch":
            return text.replace(".index.reindex.", ".reindex.")
        return text

    def kill(self) -> None:
        """Kills it."""
        if self._process is not None and self._process.alive:
            self._process.kill()

    def close(self) -> None:
        """Stops it, and deletes its documents."""
        self._http.close()
        if self._process is not None and self._process.alive:
            self._process.stop(_STOP_S)
        self._folder.cleanup()

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The response to a request, as JSON. Raises httpx.HTTPStatusError if it is refused."""
        answer = (
            self._http.request(method, path, json=body)
            if body
            else self._http.request(method, path)
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def bulk(self, index: str, lines: bytes) -> Any:
        """The response to a bulk request."""
        kind = {"content-type": "application/x-ndjson"}
        answer = self._http.post(f"/{index}/_bulk", content=lines, headers=kind)
        answer.raise_for_status()
        return answer.json()

    def documents(self, index: str) -> dict[str, Any]:
        """The documents of an index by id, at most 10,000."""
        self.request("POST", f"/{index}/_refresh")
        answer = self.request("GET", f"/{index}/_search?size=10000")
        return {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"]}

    def count(self, index: str) -> int:
        """How many documents an index has."""
        self.request("POST", f"/{index}/_refresh")
        return int(self.request("GET", f"/{index}/_count")["count"])

    def __enter__(self) -> SearchServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@cache
def shared(product: str) -> SearchServer:
    """The server that all tests of this process use; it ends with the process."""
    server = SearchServer(product)
    server.start()
    atexit.register(server.close)
    return server
