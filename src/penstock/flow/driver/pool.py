"""The slots of a worker: their number, their limits, and which of them a task is placed on.

The owner's lock guards `SlotPool`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from penstock.flow.driver import placing
from penstock.flow.driver.placing import SlotFigures, SlotLimits
from penstock.flow.driver.slots import Slot, Switchboard
from penstock.flow.messages import News
from penstock.flow.spark import remote
from penstock.flow.spark.session import Session
from penstock.flow.traces import Trace
from penstock.host.waiting import wait_until

_END_S: Final = 5.0
_NOTICE_S: Final = 3.0  # within which Spark notices that an executor is lost


class SlotPool:
    """Empty until `prepare`. The slots' threads call `over` and `news`."""

    def __init__(
        self,
        session: Session,
        over: Callable[[Slot, Trace | None], None],
        news: Callable[[Slot, Sequence[News]], None],
    ) -> None:
        self.slots: dict[int, Slot] = {}
        self._session = session
        self._over = over
        self._news = news
        self._numbers = 0
        self._limits: SlotLimits | None = None
        self._on_cluster = False
        self._switchboard: Switchboard | None = None

    def prepare(self) -> None:
        """Creates everything that needs Spark; later calls do nothing."""
        if self._switchboard is not None:
            return
        context = self._session.get()
        self._on_cluster = remote.is_remote(str(context.master))
        self._limits = self._limits_by_cores()
        conf = context.getConf()
        host = conf.get("spark.driver.host") if self._on_cluster else None
        bind = conf.get("spark.driver.bindAddress") or host
        self._switchboard = Switchboard(self.slots.get, self._news, host, bind)

    @property
    def is_ready(self) -> bool:
        return self._limits is not None

    @property
    def limits(self) -> SlotLimits:
        assert self._limits is not None, "prepared before"
        return self._limits

    def follow_cluster(self) -> None:
        """Updates the limits to Spark's current cores: executors come and go."""
        if self._on_cluster:
            with suppress(Exception):  # Spark is stopping
                self._limits = self._limits_by_cores()

    def lost_with_executor(self) -> bool:
        """Whether a slot that has just died was lost with its executor; if not, its own process
        died. Waits a moment for Spark to notice, so call it without the lock."""
        if not self._on_cluster:
            return False
        from penstock.flow.spark.executors import removed_since

        since = time.time() - _NOTICE_S
        with suppress(Exception):  # it has lost none, or is ending
            return wait_until(
                lambda: removed_since(self._session.get(), since), _NOTICE_S, "a lost executor"
            )
        return False

    def _limits_by_cores(self) -> SlotLimits:
        threads = self._session.get().defaultParallelism
        cores = threads if self._on_cluster else os.cpu_count() or 1
        return placing.limits(cores, threads, on_cluster=self._on_cluster)

    def fill(self) -> list[Slot]:
        """Starts the missing shared slots, and returns them."""
        return [self.add(shared=True) for _ in range(self.limits.shared - len(self.shared()))]

    def add(self, *, shared: bool) -> Slot:
        assert self._switchboard is not None
        self._numbers += 1
        slot = Slot(self._numbers, shared, self._session, self._switchboard.address, self._over)
        self.slots[slot.number] = slot
        slot.start()
        return slot

    def choose(self, figures: Iterable[SlotFigures], *, own: bool) -> Slot:
        """The slot for another task; `own`: a dedicated one, if the limits allow it."""
        owned = sum(not slot.shared and not slot.retired for slot in self.slots.values())
        if own and owned < self.limits.own:
            return self.add(shared=False)
        number = placing.choose(figures, self.limits)
        return self.add(shared=True) if number is None else self.slots[number]

    def shared(self) -> list[Slot]:
        """The shared slots that accept tasks."""
        return [slot for slot in self.slots.values() if slot.shared and not slot.retired]

    def close(self, slots: Iterable[Slot]) -> None:
        """Ends all slots, and waits for their end."""
        ending = list(slots)
        for slot in ending:
            slot.end()
        deadline = time.monotonic() + _END_S
        for slot in ending:
            slot.await_end(max(0.0, deadline - time.monotonic()))
        if self._switchboard is not None:
            self._switchboard.close()
