"""How busy the machine is, for bounds on durations."""

from __future__ import annotations

import threading
import time
from typing import Final

_PACE_S: Final = 1.0
_SPIN_S: Final = 0.01


class Slowness:
    """Measures from `start` to `stop`, or while entered, how many times longer a computation takes
    than on an idle processor. Multiply bounds on work by it, unlike those on waiting."""

    def __init__(self) -> None:
        self._spins: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="slowness", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Slowness:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def clear(self) -> None:
        """Forgets what was measured so far."""
        self._spins.clear()

    @property
    def factor(self) -> float:
        """The mean since the start or the last `clear`; at least 1."""
        spins = list(self._spins)
        return max(1.0, sum(spins) / len(spins)) if spins else 1.0

    def _measure(self) -> None:
        """Periodically runs a short computation, and measures its duration."""
        while not self._stopped.wait(_PACE_S):
            begin, used = time.monotonic(), time.thread_time()
            while time.thread_time() - used < _SPIN_S:
                pass
            self._spins.append((time.monotonic() - begin) / _SPIN_S)
