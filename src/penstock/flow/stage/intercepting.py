"""The interceptors of a task's client, called one after the other by the task and its pipeline.

A failing interceptor only logs a warning, at most one a minute.
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

log = logging.getLogger(__name__)

_LOG_EVERY_S: Final = 60.0


class Interceptors:
    """The interceptors of one client. False if there are none."""

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
                self._all.append(plan.plugin.load()(plan.config, task))
            except Exception as error:
                self._warn(plan.plugin.name, "it cannot be created", error)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_send(self, records: Records) -> Records:
        """The records to send in place of these."""
        for interceptor in self._all:
            if isinstance(interceptor, ProducerInterceptor):
                records = self._changed(interceptor, interceptor.on_send, "on_send", records)
        return records

    def on_acknowledgement(
        self,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        refused: Sequence[tuple[str, str]],
    ) -> None:
        """Reports which sent records Kafka acknowledged or refused."""
        for interceptor in self._all:
            if isinstance(interceptor, ProducerInterceptor):
                with self._guarded(interceptor, "on_acknowledgement"):
                    interceptor.on_acknowledgement(acknowledged, refused)

    def on_consume(self, records: Records) -> Records:
        """The records to convert in place of these."""
        for interceptor in self._all:
            if isinstance(interceptor, ConsumerInterceptor):
                records = self._changed(interceptor, interceptor.on_consume, "on_consume", records)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Reports committed offsets."""
        for interceptor in self._all:
            if isinstance(interceptor, ConsumerInterceptor):
                with self._guarded(interceptor, "on_commit"):
                    interceptor.on_commit(offsets)

    @contextmanager
    def stage(self, name: str, records: int, failed: Sized) -> Iterator[None]:
        """Reports a stage at its end; the stage fills `failed`."""
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
            for interceptor in self._all:
                with self._guarded(interceptor, "on_stage"):
                    interceptor.on_stage(done)

    def figures(self) -> list[Figure]:
        """The current figures of all interceptors."""
        figures: list[Figure] = []
        for interceptor in self._all:
            with self._guarded(interceptor, "figures"):
                figures += interceptor.figures()
        return figures

    def close(self) -> None:
        """Closes all interceptors, once."""
        closing, self._all = self._all, []
        for interceptor in closing:
            with self._guarded(interceptor, "close"):
                interceptor.close()

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
            self._warn(interceptor, f"{name} failed", error)
            return records
        return changed

    @contextmanager
    def _guarded(self, interceptor: Interceptor, call: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._warn(interceptor, f"{call} failed", error)

    def _warn(self, interceptor: Interceptor | str, problem: str, error: Exception) -> None:
        until, silent = self._silent.get(interceptor, (0.0, 0))
        now = self._clock()
        if silent and now < until:
            self._silent[interceptor] = until, silent + 1
            return
        self._silent[interceptor] = now + _LOG_EVERY_S, 1
        name = interceptor if isinstance(interceptor, str) else type(interceptor).__name__
        more = f" ({silent} failures since the last such message)" if silent > 1 else ""
        log.warning("interceptor %s: %s: %s%s", name, problem, error, more, exc_info=error)


def _check(changed: object, records: Records) -> None:
    """Raises TypeError if `changed` cannot replace the records."""
    if not isinstance(changed, Records):
        raise TypeError(f"it returned {type(changed).__name__}, not Records")
    if len(changed) > len(records) or not set(changed.origins) <= set(records.origins):
        raise TypeError("it returned records that it was not given")
    lengths = {len(changed.keys), len(changed.values), len(changed.topics)}
    if changed.headers:
        lengths.add(len(changed.headers))
    if len(lengths) != 1:
        raise TypeError("it returned columns of different lengths")
