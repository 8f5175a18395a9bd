"""The metrics of a worker."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.api import Figure as InterceptorFigure
from penstock.cluster.events import SparkReady
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import Run, RunPhase
from penstock.cluster.herder.state import (
    GroupPlace,
    HerderSettings,
    HerderState,
    Membership,
    RunningWork,
    Stable,
)
from penstock.cluster.records import State, Status
from penstock.cluster.recovery import Recovery
from penstock.cluster.state import ClusterState, ConnectorEntry
from penstock.cluster.statuses import StatusState
from penstock.connectors.file import FILE_SINK, FILE_SOURCE, FileStreamSink, FileStreamSource
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.text import StringConverter
from penstock.flow.counts import Counts
from penstock.flow.driver.reports import (
    Committed,
    InterceptorFigures,
    SlotStanding,
    Standing,
    TaskProgress,
)
from penstock.flow.plan import Conversion, ConverterPlan, SinkPlan, SourcePlan, Tolerance
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.group import ClientMetric
from penstock.plugins.ref import PluginRef
from penstock.plugins.registry import Registry
from penstock.runtime.metric_table import SECTIONS, Slots
from penstock.runtime.metrics import Metrics

SOURCE, SINK = TaskId("in", 0), TaskId("out", 0)
NOT_HERE = {
    "kafka_connect_worker_rebalance_time_since_last_rebalance_ms",
    "kafka_connect_connector_transform_class",
    "kafka_connect_connector_predicate_class",
    "kafka_connect_source_task_transaction_size_min",
    "kafka_connect_source_task_transaction_size_max",
    "kafka_connect_source_task_transaction_size_avg",
}
"""Metrics without a sample here: no rebalance has ended, no transforms, no transactions."""


class Clock:
    """Advances on request."""

    def __init__(self) -> None:
        self.time = 1_000_000

    def now(self) -> int:
        return self.time


def converter(kind: type[StringConverter] | type[SimpleHeaderConverter]) -> ConverterPlan:
    return ConverterPlan(PluginRef.of(kind), kind.plugin.config.parse({}))


CONVERSION = Conversion(
    converter(StringConverter), converter(StringConverter), converter(SimpleHeaderConverter)
)
SINK_PLAN = SinkPlan(
    SINK,
    1,
    PluginRef.of(FileStreamSink),
    FILE_SINK.parse({}),
    CONVERSION,
    Tolerance(tolerate_all=True, log=True),
    ("t",),
    None,
    {},
    {},
    {},
)
SOURCE_PLAN = SourcePlan(
    SOURCE,
    1,
    PluginRef.of(FileStreamSource),
    FILE_SOURCE.parse({"topic": "t"}),
    CONVERSION,
    Tolerance(),
    {},
)
STATE = replace(
    HerderState(HerderSettings("http://w:1/", "w:1")),
    cluster=ClusterState(
        1,
        {
            "in": ConnectorEntry({"connector.class": "FileStreamSource"}, task_count=1),
            "out": ConnectorEntry({"connector.class": "FileStreamSink"}, task_count=1),
        },
    ),
    statuses=StatusState(
        {"out": Status(State.RUNNING, "w:1", 1, None)},
        {"out": {0: Status(State.FAILED, "w:1", 1, "boom")}},
    ),
    running=RunningWork(
        connectors={"in": Run(1, RunPhase.RUNNING), "out": Run(1, RunPhase.RUNNING)},
        tasks={SOURCE: Run(1, RunPhase.RUNNING), SINK: Run(1, RunPhase.FAILED)},
        recoveries={SINK: Recovery((1, 2), 3)},
    ),
)


class Scraped:
    """Metrics with a separate clock, and their samples."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.metrics = Metrics(self.clock)

    def __getitem__(self, sample: str) -> float:
        """The value of one sample, named as in the text."""
        text = self.text()
        found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
        assert found, f"{sample} is not in\n{text}"
        return float(found[1])

    def text(self, state: HerderState = STATE) -> str:
        registry = Registry([FileStreamSource, FileStreamSink])
        return self.metrics.exposition(state, registry).decode()


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_a_sinks_batches_and_commits_are_counted(scraped: Scraped) -> None:
    metrics = scraped.metrics
    metrics.begun(SINK_PLAN)
    metrics.report(
        TaskProgress(SINK, 1, Counts(records=100, done=90, failed=10, ms=50.0, retries=2, lost=1))
    )
    metrics.report(TaskProgress(SINK, 1, Counts(records=20, done=20, ms=10.0)))
    of = '{connector="out",task="0"}'
    assert scraped[f"kafka_connect_sink_task_sink_record_read_total{of}"] == 120
    assert scraped[f"kafka_connect_sink_task_sink_record_send_total{of}"] == 110
    assert scraped[f"kafka_connect_sink_task_sink_record_read_rate{of}"] == 2
    assert scraped[f"kafka_connect_sink_task_put_batch_max_time_ms{of}"] == 50
    assert scraped[f"kafka_connect_sink_task_put_batch_avg_time_ms{of}"] == 30
    assert scraped[f"kafka_connect_sink_task_sink_record_active_count{of}"] == 120
    assert scraped[f"kafka_connect_connector_task_batch_size_avg{of}"] == 60
    assert scraped[f"kafka_connect_task_error_total_records_skipped{of}"] == 10
    assert scraped[f"kafka_connect_task_error_total_retries{of}"] == 2
    assert scraped[f"kafka_connect_task_error_total_errors_logged{of}"] == 10
    assert scraped[f"kafka_connect_task_error_deadletterqueue_produce_failures{of}"] == 1
    assert scraped[f"kafka_connect_task_error_last_error_timestamp{of}"] == scraped.clock.time
    metrics.report(Committed(SINK, 1, ok=False, ms=4.0, partitions=3))
    metrics.report(Committed(SINK, 1, ok=True, ms=2.0, partitions=3))
    assert scraped[f"kafka_connect_sink_task_sink_record_active_count{of}"] == 0
    assert scraped[f"kafka_connect_sink_task_partition_count{of}"] == 3
    assert scraped[f"kafka_connect_sink_task_offset_commit_seq_no{of}"] == 2
    assert scraped[f"kafka_connect_sink_task_offset_commit_completion_total{of}"] == 1
    assert scraped[f"kafka_connect_connector_task_offset_commit_failure_percentage{of}"] == 0.5


def test_the_figures_of_a_tasks_interceptors_are_shown(scraped: Scraped) -> None:
    scraped.metrics.begun(SINK_PLAN)
    for value in (1, 2):
        figures = [InterceptorFigure("penstock_seen_total", value, {"topic": "t"})]
        scraped.metrics.report(InterceptorFigures(SINK, 1, figures))
    assert scraped['penstock_seen_total{connector="out",task="0",topic="t"}'] == 2
    assert "# TYPE penstock_seen_total counter" in scraped.text()


def test_a_source_writes_and_stores(scraped: Scraped) -> None:
    scraped.metrics.begun(SOURCE_PLAN)
    scraped.metrics.report(TaskProgress(SOURCE, 1, Counts(records=30, done=29, ms=7.0)))
    scraped.metrics.stored(SOURCE, True, 3.0)
    of = '{connector="in",task="0"}'
    assert scraped[f"kafka_connect_source_task_source_record_poll_total{of}"] == 30
    assert scraped[f"kafka_connect_source_task_source_record_write_total{of}"] == 29
    assert scraped[f"kafka_connect_source_task_poll_batch_avg_time_ms{of}"] == 7
    assert scraped[f"kafka_connect_connector_task_offset_commit_success_percentage{of}"] == 1


def test_rates_are_of_the_last_minute_and_totals_of_the_whole_run(scraped: Scraped) -> None:
    scraped.metrics.begun(SOURCE_PLAN)
    scraped.metrics.report(TaskProgress(SOURCE, 1, Counts(records=60, done=60)))
    scraped.clock.time += 60_000
    of = '{connector="in",task="0"}'
    assert scraped[f"kafka_connect_source_task_source_record_poll_rate{of}"] == 0
    assert scraped[f"kafka_connect_source_task_source_record_poll_total{of}"] == 60


def test_reports_of_an_older_run_do_not_count(scraped: Scraped) -> None:
    scraped.metrics.begun(replace(SINK_PLAN, run=2))
    scraped.metrics.report(TaskProgress(SINK, 1, Counts(records=5, done=5)))
    of = '{connector="out",task="0"}'
    assert scraped[f"kafka_connect_sink_task_sink_record_read_total{of}"] == 0


def test_a_failed_task_is_seen(scraped: Scraped) -> None:
    assert scraped["penstock_failed_tasks"] == 1
    task = '{connector="out",status="failed",task="0"}'
    assert scraped[f"kafka_connect_connector_task_status{task}"] == 1
    assert scraped[f"kafka_connect_connector_status{task}"] == 1
    assert scraped['kafka_connect_worker_connector_failed_task_count{connector="out"}'] == 1
    assert scraped['penstock_restarts_in_window{connector="out",task="0"}'] == 2


def test_starts_and_rounds_are_counted(scraped: Scraped) -> None:
    metrics = scraped.metrics
    for ok in (True, True, False):
        metrics.started("task", ok)
    metrics.round_begins()
    assert scraped["kafka_connect_worker_rebalance_rebalancing"] == 1
    scraped.clock.time += 250
    metrics.round_ends()
    assert scraped["kafka_connect_worker_task_startup_attempts_total"] == 3
    assert scraped["kafka_connect_worker_task_startup_failure_total"] == 1
    assert scraped["kafka_connect_worker_rebalance_completed_rebalances_total"] == 1
    assert scraped["kafka_connect_worker_rebalance_rebalance_max_time_ms"] == 250
    assert scraped["kafka_connect_worker_connector_count"] == 2


def test_who_leads_and_by_which_protocol_are_labels(scraped: Scraped) -> None:
    member = GroupPlace("m", 7, "sessioned", "m", "http://leader:1/")
    state = replace(STATE, membership=Membership(Stable(member)))
    text = scraped.text(state)
    stem = "kafka_connect_worker_rebalance"
    assert f'{stem}_leader_name{{leader_name="http://leader:1/"}} 1.0' in text
    assert f'{stem}_connect_protocol{{connect_protocol="sessioned"}} 1.0' in text
    assert f"{stem}_epoch 7.0" in text


def test_shares_of_time_are_of_the_last_minute_or_of_what_there_was_of_it(
    scraped: Scraped,
) -> None:
    metrics, clock = scraped.metrics, scraped.clock
    running, paused = (
        f'kafka_connect_connector_task_{which}_ratio{{connector="in",task="0"}}'
        for which in ("running", "pause")
    )
    metrics.phases({SOURCE: Run(1, RunPhase.STARTING)})
    assert scraped[running] == 0
    clock.time += 10_000
    metrics.phases({SOURCE: Run(1, RunPhase.RUNNING)})
    clock.time += 30_000
    assert (scraped[running], scraped[paused]) == (0.75, 0)
    metrics.phases({SOURCE: Run(1, RunPhase.PAUSED)})
    clock.time += 40_000
    assert (scraped[running], scraped[paused]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    clock.time += 60_000
    assert (scraped[running], scraped[paused]) == (0, 1)
    metrics.phases({})
    assert "pause_ratio" not in scraped.text()


def test_how_far_behind_a_sink_is_and_how_slots_stand_are_shown(scraped: Scraped) -> None:
    behind = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 70}
    standings = {SINK: Standing(behind, 2, False, 0.75), SOURCE: Standing()}
    slots = Slots([SlotStanding(1, True, 4, 1000), SlotStanding(2, False, 1, 2000)], 3, 1)
    figures = [
        ClientMetric("connect-coordinator-metrics", "heartbeat-rate", 0.3),
        ClientMetric("connect-metrics", "connection-count", 2),
    ]
    text = scraped.metrics.exposition(STATE, Registry([]), standings, figures, slots).decode()
    of = 'connector="out"'
    for line in (
        f'penstock_sink_record_lag{{{of},partition="1",task="0",topic="t"}} 70.0',
        f'kafka_connect_sink_task_sink_record_lag_max{{{of},task="0"}} 70.0',
        f'penstock_task_busy_ratio{{{of},shared="false",slot="2",task="0"}} 0.75',
        'penstock_slot_tasks{shared="true",slot="1"} 4.0',
        'penstock_slot_memory_bytes{shared="false",slot="2"} 2000.0',
        "penstock_slot_moves_total 3.0",
        "penstock_slot_deaths_total 1.0",
        "kafka_connect_coordinator_heartbeat_rate 0.3",
        "kafka_connect_connection_count 2.0",
    ):
        assert line in text.splitlines(), text
    assert 'lag_max{connector="in"' not in text


def test_a_young_worker_tells_what_it_can(scraped: Scraped) -> None:
    state, _ = step(HerderState(HerderSettings("http://w:1/", "w:1")), SparkReady(), 0)
    assert "penstock_spark_ready 1.0" in scraped.text(state)


def test_the_table_has_each_metric_once_with_a_help_that_is_a_sentence() -> None:
    metrics = [metric for section in SECTIONS for metric in section.metrics]
    names = [metric.name for metric in metrics]
    assert len(set(names)) == len(names)
    for metric in metrics:
        assert re.fullmatch(r"(kafka_connect|penstock)_[a-z_]+", metric.name)
        assert re.fullmatch(r"[A-Z0-9].*\.", metric.help), metric


def test_help_and_labels_are_those_of_the_table(scraped: Scraped) -> None:
    scraped.metrics.begun(SINK_PLAN)
    scraped.metrics.begun(SOURCE_PLAN)
    scraped.metrics.phases(STATE.running.tasks)
    standings = {SINK: Standing({TopicPartition("t", 0): 5}, 2, False, 0.75)}
    slots = Slots([SlotStanding(1, True, 4, 1000)], 3, 1)
    member = GroupPlace("m", 7, "sessioned", "m", "http://leader:1/")
    state = replace(STATE, membership=Membership(Stable(member)))
    registry = Registry([FileStreamSource, FileStreamSink])
    text = scraped.metrics.exposition(state, registry, standings, (), slots).decode()
    shown = {family.name: family for family in text_string_to_metric_families(text)}
    for section in SECTIONS:
        for metric in section.metrics:
            family = shown.get(metric.name.removesuffix("_total"))
            if family is None:
                assert metric.name in NOT_HERE
                continue
            assert (family.documentation, family.type) == (metric.help, metric.kind)
            for sample in family.samples:
                assert sample.labels.keys() <= set(metric.labels)
