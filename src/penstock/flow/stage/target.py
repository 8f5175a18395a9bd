"""The writer of a sink task, and what its errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.api import SinkWriter
from penstock.errors import is_transient
from penstock.flow.counts import Counts
from penstock.flow.stage.owned import Owned

log = logging.getLogger(__name__)


class Target:
    """The connector's writer; for the task's thread."""

    def __init__(self, writer: SinkWriter, owned: Owned, count: Callable[[Counts], None]) -> None:
        self.writer = writer
        self._owned = owned
        self._count = count

    @contextmanager
    def called(self) -> Iterator[SinkWriter]:
        """Calls the writer in the block. After an error that a retry does not help, the writer is
        in an unknown state, in which a flush may succeed although records are lost."""
        try:
            yield self.writer
        except BaseException as error:
            if not is_transient(error):
                self._owned.doubt()
            raise

    def note_retry(self, problem: str, error: Exception, *, repeats: bool = False) -> None:
        """Logs an error after which the writer is called again, as a warning unless it `repeats`
        the previous one; raises any other."""
        if not is_transient(error):
            raise error
        level = logging.DEBUG if repeats else logging.WARNING
        log.log(level, "%s, retrying: %s", problem, error)
        self._count(Counts(retries=1))
