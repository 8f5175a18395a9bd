"""The interceptors of a task's client, called one after the other.

A failing interceptor costs nothing but a line of the log, and not more than one every so often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Final

from penstock.api import Records, TopicPartition
from penstock.api.interceptor import (
    Acknowledged,
    ConsumerInterceptor,
    Figure,
    Interceptor,
    InterceptorContext,
    ProducerInterceptor,
    StageDone,
)
from penstock.flow.plan import InterceptorPlan
from penstock.flow.stage.pipeline import Failure, Pipeline

log = logging.getLogger(__name__)

_LOG_EVERY_S: Final = 60.0


class Interceptors:
    """Those of one client. False without any."""

    def __init__(
        self,
        plans: Sequence[InterceptorPlan],
        task: InterceptorContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._silent: dict[Interceptor | str, tuple[float, int]] = {}
        self._all: list[Interceptor] = []
        for plan in plans:
            try:
                self._all.append(plan.kind(plan.config, task))
            except Exception as error:
                self._tell(plan.kind.__name__, "it cannot be made", error)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_send(self, records: Records) -> Records:
        """What is to be sent in place of these records."""
        for each in self._all:
            if isinstance(each, ProducerInterceptor):
                records = self._changed(each, each.on_send, "on_send", records)
        return records

    def on_acknowledgement(
        self,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        refused: Sequence[tuple[str, str]],
    ) -> None:
        """Tells what became of what was sent."""
        for each in self._all:
            if isinstance(each, ProducerInterceptor):
                with self._guarded(each, "on_acknowledgement"):
                    each.on_acknowledgement(acknowledged, refused)

    def on_consume(self, records: Records) -> Records:
        """What is to be converted in place of these records."""
        for each in self._all:
            if isinstance(each, ConsumerInterceptor):
                records = self._changed(each, each.on_consume, "on_consume", records)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tells which offsets are committed."""
        for each in self._all:
            if isinstance(each, ConsumerInterceptor):
                with self._guarded(each, "on_commit"):
                    each.on_commit(offsets)

    @contextmanager
    def stage(self, name: str, records: int, failed: Sized) -> Iterator[None]:
        """Tells of a stage when it is over; `failed` is filled in it."""
        if not self._all:
            yield
            return
        began, problem = time.time_ns(), None
        try:
            yield
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
            raise
        finally:
            done = StageDone(name, records, len(failed), began, time.time_ns(), problem)
            for each in self._all:
                with self._guarded(each, "on_stage"):
                    each.on_stage(done)

    def receive(self, pipeline: Pipeline, records: Records) -> tuple[Records, Sequence[Failure]]:
        """What comes of records that were consumed."""
        return self.convert(pipeline, self.on_consume(records))

    def convert(self, pipeline: Pipeline, records: Records) -> tuple[Records, Sequence[Failure]]:
        """Runs a pipeline, and tells of it if there is something to run it for."""
        if not self._all or not len(records):
            return pipeline.run(records)
        failed: list[Failure] = []
        with self.stage("convert", len(records), failed):
            converted, found = pipeline.run(records)
            failed += found
        return converted, failed

    def figures(self) -> list[Figure]:
        """The present figures of all of them."""
        found: list[Figure] = []
        for each in self._all:
            with self._guarded(each, "figures"):
                found += each.figures()
        return found

    def close(self) -> None:
        """Closes all of them, once."""
        closing, self._all = self._all, []
        for each in closing:
            with self._guarded(each, "close"):
                each.close()

    def _changed(
        self,
        interceptor: Interceptor,
        call: Callable[[Records], Records],
        name: str,
        records: Records,
    ) -> Records:
        try:
            changed = call(records)
            if changed is not records:
                _check(changed, records)
        except Exception as error:
            self._tell(interceptor, f"{name} failed", error)
            return records
        return changed

    @contextmanager
    def _guarded(self, interceptor: Interceptor, call: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._tell(interceptor, f"{call} failed", error)

    def _tell(self, interceptor: Interceptor | str, what: str, error: Exception) -> None:
        until, silent = self._silent.get(interceptor, (0.0, 0))
        now = self._clock()
        if silent and now < until:
            self._silent[interceptor] = until, silent + 1
            return
        self._silent[interceptor] = now + _LOG_EVERY_S, 1
        name = interceptor if isinstance(interceptor, str) else type(interceptor).__name__
        more = f" ({silent} failures since the last such line)" if silent > 1 else ""
        log.warning("interceptor %s: %s: %s%s", name, what, error, more, exc_info=error)


def _check(changed: object, records: Records) -> None:
    """Raises TypeError for what cannot take the place of records."""
    if not isinstance(changed, Records):
        raise TypeError(f"it returned {type(changed).__name__}, not Records")
    if len(changed) > len(records) or not set(changed.origins) <= set(records.origins):
        raise TypeError("it returned records that it was not given")
    lengths = {len(changed.keys), len(changed.values), len(changed.topics)}
    if changed.headers:
        lengths.add(len(changed.headers))
    if len(lengths) != 1:
        raise TypeError("it returned columns of different lengths")
