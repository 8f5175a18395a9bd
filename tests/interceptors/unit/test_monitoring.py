"""The monitoring interceptors."""

from __future__ import annotations

from typing import Any

from penstock.api import Acknowledged, ConsumerInterceptor, ProducerInterceptor, TopicPartition
from penstock.api.settings import ConfigDef
from penstock.ids import TaskId
from penstock.interceptors.monitoring import MonitoringConsumer, MonitoringProducer
from penstock.testing.conformance import records_of

CONFIG = ConfigDef().parse({})


class Context:
    task = TaskId("c", 0)


def figures(of: ProducerInterceptor | ConsumerInterceptor) -> dict[tuple[Any, ...], float]:
    return {
        (each.name.removeprefix("penstock_monitoring_"), *each.labels.values()): each.value
        for each in of.figures()
    }


def test_records_of_a_source_are_counted() -> None:
    now = [0.0]
    monitoring = MonitoringProducer(CONFIG, Context(), lambda: now[0])
    records = records_of([b"a", b"b"], topic="t")
    assert monitoring.on_send(records) is records
    monitoring.on_send(records)
    monitoring.on_acknowledgement({TopicPartition("t", 1): Acknowledged(3, 9, 30.0, 20.0)}, [])
    now[0] = 30.0
    monitoring.on_acknowledgement(
        {TopicPartition("t", 1): Acknowledged(1, 10, 5.0, 5.0)}, [("t", "too large")]
    )
    assert figures(monitoring) == {
        ("sent_records_total", "t"): 4,
        ("refused_records_total", "t"): 1,
        ("acknowledged_records_total", "t", "1"): 4,
        ("acknowledge_latency_ms_total", "t", "1"): 35.0,
        ("acknowledge_latency_ms_max", "t", "1"): 20.0,
    }
    now[0] = 61.0
    assert figures(monitoring)["acknowledge_latency_ms_max", "t", "1"] == 5.0
    now[0] = 91.0
    assert ("acknowledge_latency_ms_max", "t", "1") not in figures(monitoring)


def test_records_of_a_sink_are_counted_with_their_age() -> None:
    monitoring = MonitoringConsumer(CONFIG, Context(), lambda: 0.0, lambda: 1_000.0)
    records = records_of([b"a", b"b", b"c"], topic="t")
    records.timestamps[:] = [900, 400, -1]
    assert monitoring.on_consume(records) is records
    assert monitoring.on_consume(records.only([])).values.values == []
    monitoring.on_commit({TopicPartition("t", 0): 3})
    assert figures(monitoring) == {
        ("consumed_records_total", "t", "0"): 3,
        ("end_to_end_latency_ms_total", "t", "0"): 700.0,
        ("end_to_end_latency_ms_max", "t", "0"): 600.0,
        ("committed_offset", "t", "0"): 3,
    }


def test_a_timestamp_in_the_future_does_not_lower_the_latency_of_others() -> None:
    monitoring = MonitoringConsumer(CONFIG, Context(), lambda: 0.0, lambda: 1_000.0)
    records = records_of([b"a", b"b"], topic="t")
    records.timestamps[:] = [900, 5_000]
    monitoring.on_consume(records)
    assert figures(monitoring)["end_to_end_latency_ms_total", "t", "0"] == 100.0
