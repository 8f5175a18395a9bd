"""Counts and latencies of sent and consumed records, per topic partition, at `/metrics`."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from penstock.api import (
    VERSION,
    Acknowledged,
    ConsumerInterceptor,
    Figure,
    InterceptorContext,
    Plugin,
    ProducerInterceptor,
    Records,
    TopicPartition,
)
from penstock.api.settings import Config, ConfigDef

_WINDOW_S: Final = 60.0
_CONFLUENT: Final = "io.confluent.monitoring.clients.interceptor."
_OURS: Final = "io.penstock.interceptors."


class _Largest:
    """The largest value of the last minute."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, float]] = deque()  # descending, each with its time

    def add(self, now: float, value: float) -> None:
        while self._values and self._values[-1][1] <= value:
            self._values.pop()
        self._values.append((now, value))

    def value(self, now: float) -> float | None:
        while self._values and self._values[0][0] <= now - _WINDOW_S:
            self._values.popleft()
        return self._values[0][1] if self._values else None


class _Latencies:
    """Numbers of records and their latencies, per topic partition. Thread-safe."""

    def __init__(self, records: str, latency: str, clock: Callable[[], float]) -> None:
        self._records, self._latency, self._clock = records, latency, clock
        self._lock = threading.Lock()
        self._counts: dict[TopicPartition, tuple[int, float]] = {}
        self._largest: dict[TopicPartition, _Largest] = {}

    def add(self, place: TopicPartition, records: int, ms: float, ms_max: float) -> None:
        with self._lock:
            count, sum_ms = self._counts.get(place, (0, 0.0))
            self._counts[place] = count + records, sum_ms + ms
            self._largest.setdefault(place, _Largest()).add(self._clock(), ms_max)

    def figures(self) -> list[Figure]:
        figures: list[Figure] = []
        with self._lock:
            now = self._clock()
            for place, (count, sum_ms) in self._counts.items():
                labels = {"topic": place.topic, "partition": str(place.partition)}
                figures.append(Figure(f"{self._records}_total", count, labels))
                figures.append(Figure(f"{self._latency}_ms_total", sum_ms, labels))
                largest = self._largest[place].value(now)
                if largest is not None:
                    figures.append(Figure(f"{self._latency}_ms_max", largest, labels))
        return figures


class MonitoringProducer(ProducerInterceptor):
    """Counts what a source sends, what Kafka has acknowledged and refused, and how long that
    took."""

    plugin = Plugin(
        class_name=f"{_OURS}MonitoringProducerInterceptor",
        version=VERSION,
        config=ConfigDef(),
        also=(f"{_CONFLUENT}MonitoringProducerInterceptor",),
    )

    def __init__(
        self,
        config: Config,
        context: InterceptorContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, context)
        self._sent: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._lock = threading.Lock()
        self._latencies = _Latencies(
            "penstock_monitoring_acknowledged_records",
            "penstock_monitoring_acknowledge_latency",
            clock,
        )

    def on_send(self, records: Records) -> Records:
        with self._lock:
            for topic in set(records.topics):
                self._sent[topic] = self._sent.get(topic, 0) + records.topics.count(topic)
        return records

    def on_acknowledgement(
        self,
        acknowledged: Mapping[TopicPartition, Acknowledged],
        refused: Sequence[tuple[str, str]],
    ) -> None:
        for place, counts in acknowledged.items():
            self._latencies.add(place, counts.records, counts.ms, counts.ms_max)
        with self._lock:
            for topic, _ in refused:
                self._refused[topic] = self._refused.get(topic, 0) + 1

    def figures(self) -> Iterable[Figure]:
        with self._lock:
            figures = [
                Figure(f"penstock_monitoring_{outcome}_records_total", count, {"topic": topic})
                for outcome, counts in (("sent", self._sent), ("refused", self._refused))
                for topic, count in counts.items()
            ]
        return [*figures, *self._latencies.figures()]


class MonitoringConsumer(ConsumerInterceptor):
    """Counts what a sink reads, and how long ago each record's timestamp is: the end-to-end
    latency."""

    plugin = Plugin(
        class_name=f"{_OURS}MonitoringConsumerInterceptor",
        version=VERSION,
        config=ConfigDef(),
        also=(f"{_CONFLUENT}MonitoringConsumerInterceptor",),
    )

    def __init__(
        self,
        config: Config,
        context: InterceptorContext,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        super().__init__(config, context)
        self._now_ms = now_ms
        self._committed: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()
        self._latencies = _Latencies(
            "penstock_monitoring_consumed_records",
            "penstock_monitoring_end_to_end_latency",
            clock,
        )

    def on_consume(self, records: Records) -> Records:
        if not len(records):
            return records
        now = self._now_ms()
        place = TopicPartition(records.topics[0], records.partitions[0] or 0)
        # Kafka's -1 is no timestamp; one in the future is no latency.
        stamps = [
            min(stamp, now) for stamp in records.timestamps if stamp is not None and stamp >= 0
        ]
        ms = now * len(stamps) - sum(stamps)
        ms_max = now - min(stamps, default=now)
        self._latencies.add(place, len(records), ms, ms_max)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            self._committed.update(offsets)

    def figures(self) -> Iterable[Figure]:
        with self._lock:
            committed = [
                Figure(
                    "penstock_monitoring_committed_offset",
                    offset,
                    {"topic": place.topic, "partition": str(place.partition)},
                )
                for place, offset in self._committed.items()
            ]
        return [*self._latencies.figures(), *committed]
