"""The connector instances of a worker: made and started when a connector is assigned to it, asked
for their tasks, and stopped when the connector runs here no more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.api import Connector, Offsets
from penstock.cluster.herder_state import Phase, Run
from penstock.host.logs import about

log = logging.getLogger(__name__)

_RUNS = frozenset({Phase.STARTING, Phase.RUNNING})


@dataclass(frozen=True, slots=True)
class Context:
    """What a connector may ask of its worker: a `ConnectorContext`."""

    name: str
    read: Callable[[], Offsets]
    replan: Callable[[], None]

    def read_stored_offsets(self) -> Offsets:
        return self.read()

    def request_reconfiguration(self) -> None:
        self.replan()


class Instances:
    """Every method may be called by any thread; `start` and `stop` of a connector run in the
    caller's and in one of ours, and may block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, tuple[int, Connector]] = {}

    def put(self, name: str, run: int, connector: Connector) -> None:
        """Keeps an instance that was started; one of an earlier run is stopped."""
        with self._lock:
            earlier = self._running.get(name)
            self._running[name] = run, connector
        if earlier is not None:
            stop(name, earlier[1])

    def get(self, name: str, run: int) -> Connector | None:
        with self._lock:
            found = self._running.get(name)
        return found[1] if found is not None and found[0] == run else None

    def keep(self, runs: Mapping[str, Run]) -> None:
        """Stops those that do not run here any more, in a thread of their own."""
        with self._lock:
            over = {
                name: connector
                for name, (number, connector) in self._running.items()
                if name not in runs or runs[name].run != number or runs[name].phase not in _RUNS
            }
            for name in over:
                del self._running[name]
        for name, connector in over.items():
            threading.Thread(target=stop, args=(name, connector), daemon=True).start()

    def close(self) -> None:
        """Stops all of them; returns at once."""
        self.keep({})


def stop(name: str, connector: Connector) -> None:
    """Stops an instance; what it raises is logged, for it is over either way."""
    with about(name):
        try:
            connector.stop()
        except Exception:
            log.exception("the connector did not stop cleanly")
