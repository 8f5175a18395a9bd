"""A worker as a service: tells its manager when it is ready, alive, and stopping."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Final, Protocol

from penstock.cluster import events as e
from penstock.host import notify

_LOOK_S: Final = 0.2
_SHARE: Final = 3  # of the watchdog's time: two reports may be late


class WatchedWorker(Protocol):
    """The part of a worker that is used here."""

    ended: threading.Event

    @property
    def started(self) -> bool: ...

    def submit(self, operation: e.Operation) -> Future[e.Result]: ...


class ServiceReporting(threading.Thread):
    """Tells the service manager that the worker is ready once it has joined its group, and from
    then on that it is alive, as long as its loop answers. Ends with the worker."""

    def __init__(self, worker: WatchedWorker, manager: notify.Manager, url: str) -> None:
        super().__init__(name="service", daemon=True)
        self._worker = worker
        self._manager = manager
        self._url = url

    def run(self) -> None:
        worker, manager = self._worker, self._manager
        manager.notify(status="starting; it has not joined its group yet")
        while not worker.started:
            if worker.ended.wait(_LOOK_S):
                return
        manager.notify(notify.READY, status=f"running; REST listens on {self._url}")
        if manager.watchdog_s is None:
            return
        every_s = manager.watchdog_s / _SHARE
        while not worker.ended.wait(every_s):
            try:
                worker.submit(e.Ping()).result(every_s)
            except TimeoutError:
                continue
            manager.notify(notify.ALIVE)
