"""The connector instances of a worker: started when a connector is assigned to it, and stopped when
it is revoked, deleted, paused or restarted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.api import Offsets
from penstock.cluster.herder.runs import Run, RunPhase
from penstock.host.logs import about

log = logging.getLogger(__name__)

_RUNS = frozenset({RunPhase.STARTING, RunPhase.RUNNING})


class Instance(Protocol):
    """A running connector instance: a `Connector`, or one in the Java host."""

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class InstanceContext:
    """A `ConnectorContext`."""

    name: str
    read: Callable[[], Offsets]
    replan: Callable[[], None]

    def read_stored_offsets(self) -> Offsets:
        return self.read()

    def request_reconfiguration(self) -> None:
        self.replan()


class Instances:
    """The running instances. Thread-safe. A connector's `start` runs in the caller's thread and its
    `stop` in a separate thread, as both may block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, tuple[int, Instance]] = {}

    def put(self, name: str, run: int, connector: Instance) -> None:
        """Keeps a started instance, and stops that of an earlier run."""
        with self._lock:
            earlier = self._running.get(name)
            self._running[name] = run, connector
        if earlier is not None:
            stop(name, earlier[1])

    def get(self, name: str, run: int) -> Instance | None:
        with self._lock:
            running = self._running.get(name)
        return running[1] if running is not None and running[0] == run else None

    def keep(self, runs: Mapping[str, Run]) -> None:
        """Stops the instances that are not in `runs`, each in a separate thread."""
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


def stop(name: str, connector: Instance) -> None:
    """Stops an instance, and logs what it raises."""
    with about(name):
        try:
            connector.stop()
        except Exception:
            log.exception("failed to stop the connector cleanly")
