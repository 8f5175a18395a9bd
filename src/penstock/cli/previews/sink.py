"""Shows what a sink would write of the current records of its topics."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from penstock.cli import show
from penstock.cli.exits import HasFailed, NotThere
from penstock.cli.records import reading
from penstock.cli.records.settings import RecordsSettings
from penstock.data.records import Column, Header, Records
from penstock.data.schema import BYTES
from penstock.flow.stage.failures import describe
from penstock.flow.stage.pipeline import Failure, Pipeline, Stage, sink_steps
from penstock.ids import TopicPartition
from penstock.plugins.contexts import ConsumedFrom, SinkContextStub

if TYPE_CHECKING:
    from confluent_kafka import Message

    from penstock.api import SinkWriter
    from penstock.cli.session import CommandSession
    from penstock.flow.plan import SinkPlan

_SHOWN: Final = 20  # refused records to show


class SinkPreview:
    """Runs a task's records through its pipeline, and through a writer that writes nothing."""

    def __init__(
        self, session: CommandSession, plan: SinkPlan, origin: str, rows: int, start: str
    ) -> None:
        """`origin`: where Kafka's address comes from; `rows`: records of each partition."""
        self._session = session
        self._plan = plan
        self._settings = RecordsSettings(
            plan.consumer["bootstrap.servers"], origin, plan.consumer, {}
        )
        self._rows = rows
        self._start = reading.start_of(start, session.clock.now())
        self._read = 0
        self._refused = 0
        self._class_name = plan.connector.runs_as

    def run(self) -> None:
        """Prints what would be written. Raises CommandError."""
        plan = self._plan
        client = reading.connect(self._settings)
        topics = self._topics(sorted(client.list_topics(timeout=reading.CONNECT_S).topics))
        connector = plan.connector.load()()
        connector.check_installed(plan.config)
        context = SinkContextStub(plan.task, tolerates_errors=plan.tolerance.tolerate_all)
        writer = connector.open_preview(plan.config, context, _print)
        assert writer is not None, "the command has looked whether there is a preview"
        pipeline = Pipeline(sink_steps(plan.conversion, fields=writer.takes_fields), plan.tolerance)
        try:
            for topic in topics:
                partitions = reading.partitions_of(client, topic, self._settings)
                ranges = {
                    number: reading.Range(span.begin, min(span.end, span.begin + self._rows))
                    for number, span in reading.ranges(
                        client, topic, partitions, self._start
                    ).items()
                }
                writer.assigned(
                    {TopicPartition(topic, number): span.begin for number, span in ranges.items()}
                )
                batches = reading.messages(
                    self._settings, topic, ranges, self._session.clock, follow=False
                )
                with contextlib.closing(batches):
                    for batch in batches:
                        self._write(writer, pipeline, batch)
            writer.flush()
        finally:
            pipeline.close()
            writer.close()
        for record, error in context.reported:
            self._note_refused(f"{record.topic}-{record.partition} offset {record.offset}: {error}")
        self._note()

    def _topics(self, topics: Sequence[str]) -> list[str]:
        if self._plan.topics_regex is None:
            return list(self._plan.topics)
        matching = [name for name in topics if re.fullmatch(self._plan.topics_regex, name)]
        if not matching:
            raise NotThere(f"No topic matches topics.regex={self._plan.topics_regex}.")
        return matching

    def _write(self, writer: SinkWriter, pipeline: Pipeline, batch: list[Message]) -> None:
        by_partition: dict[int, list[Message]] = {}
        for message in batch:
            by_partition.setdefault(message.partition() or 0, []).append(message)
        for messages in by_partition.values():
            consumed = records_of(messages)
            self._read += len(consumed)
            records, failures = pipeline.run(consumed)
            refused: dict[int, Exception] = {}
            if len(records):
                place = TopicPartition(consumed.topics[0], consumed.partitions[0] or 0)
                writer.write(replace(records, source=ConsumedFrom(place)), refused)
            failures += [
                Failure(records.origins[row], Stage.TASK_PUT, self._class_name, error)
                for row, error in refused.items()
            ]
            for failure in failures:
                at = f"{consumed.topics[0]}-{consumed.partitions[0]}"
                self._note_refused(
                    f"{at} offset {consumed.offsets[failure.origin]}: {describe(failure)}"
                )

    def _note_refused(self, refused: str) -> None:
        if not self._plan.tolerance.tolerate_all:
            raise HasFailed(
                f"The task {self._plan.task} would fail at {refused}",
                "errors.tolerance=all skips such records.",
            )
        self._refused += 1
        if self._refused <= _SHOWN:
            show.note(f"A record is skipped: {refused}")

    def _note(self) -> None:
        refused = f", {self._refused} of them refused" if self._refused else ""
        show.note(
            f"{self._read} records read at {self._settings.bootstrap} "
            f"({self._settings.origin}){refused}; nothing was written."
        )


def records_of(messages: Sequence[Message]) -> Records:
    """Neighbouring records of one partition as the engine passes them to a pipeline."""
    keys = [message.key() for message in messages]
    values = [message.value() for message in messages]
    headers = [_headers(message) for message in messages]
    return Records(
        topics=[message.topic() or "" for message in messages],
        partitions=[message.partition() for message in messages],
        timestamps=[message.timestamp()[1] for message in messages],
        keys=Column.of(keys, BYTES),
        values=Column.of(values, BYTES),
        offsets=[message.offset() or 0 for message in messages],
        headers=headers if any(headers) else [],
    )


def _headers(message: Message) -> Sequence[Header]:
    headers = message.headers() or []
    return [Header(*pair) for pair in (headers.items() if isinstance(headers, dict) else headers)]


def _print(line: str) -> None:
    click.echo(line)
