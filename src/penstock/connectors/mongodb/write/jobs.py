"""A batch of records as jobs: the writes for one collection, in the order of the records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import bson

from penstock.api import DataError, Failed, Records
from penstock.connectors.keyed.batches import last_ones, pieces, previous, rounds
from penstock.connectors.mongodb.write.documents import Document, columns
from penstock.connectors.mongodb.write.entry import Entry, Kind, Write
from penstock.connectors.mongodb.write.ids import ID
from penstock.connectors.mongodb.write.namespaces import Namespace
from penstock.connectors.mongodb.write.plan import Plan


@dataclass(slots=True)
class Job:
    """The writes of one bulk, with the rows of their records. `earlier`: by row, the superseded
    write to send if that row's is refused. `repeated`: some writes may have been sent before."""

    plan: Plan
    namespace: Namespace
    rows: list[int]
    writes: list[Write]
    earlier: dict[int, tuple[int, Write]] = field(default_factory=dict)
    repeated: bool = False

    def only(self, positions: list[int]) -> Job:
        """The writes at these positions."""
        return Job(
            self.plan,
            self.namespace,
            [self.rows[position] for position in positions],
            [self.writes[position] for position in positions],
            self.earlier,
            self.repeated,
        )


def jobs_of(records: Records, plan_of: Callable[[str], Plan], refused: Failed) -> list[Job]:
    """The jobs of a batch, collection by collection. A record that cannot be written gets an entry
    in `refused`."""
    groups: dict[tuple[str, Namespace], Job] = {}
    for entry, plan in _entries(records, plan_of, refused):
        try:
            target = plan.write_of(entry)
        except (DataError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            refused[entry.row] = _as_data_error(error)
            continue
        if target is None:
            continue
        namespace, write = target
        job = groups.get((entry.topic, namespace))
        if job is None:
            job = groups[entry.topic, namespace] = Job(plan, namespace, [], [])
        job.rows.append(entry.row)
        job.writes.append(write)
    return [part for job in groups.values() for part in _parts(job)]


def _as_data_error(error: Exception) -> DataError:
    if isinstance(error, DataError):
        return error
    return DataError(f"Could not build the WriteModel: {error}")


def _entries(
    records: Records, plan_of: Callable[[str], Plan], refused: Failed
) -> list[tuple[Entry, Plan]]:
    values: list[Document | None] = columns(records.values, refused)
    entries: list[tuple[Entry, Plan]] = []
    topics, partitions, offsets = records.topics, records.partitions, records.offsets
    times = records.timestamps
    schemaless = all(run.schema is None for run in records.values.runs)
    plans: dict[str, Plan] = {}
    for schema, start, stop in records.keys.slices():
        keys = records.keys.values
        for row in range(start, stop):
            if row in refused:
                continue
            topic = topics[row]
            plan = plans.get(topic)
            if plan is None:
                plan = plans[topic] = plan_of(topic)
            entry = Entry(
                row,
                values[row],
                keys[row],
                schema,
                topic,
                partitions[row],
                offsets[row],
                times[row],
                java_order=schemaless and plan.java_order,
            )
            entries.append((entry, plan))
    return entries


def _parts(job: Job) -> list[Job]:
    """The bulks of a job. Unordered bulks never have two writes of one document."""
    if job.plan.ordered:
        groups: list[list[int]] = [[*range(len(job.rows))]]
    else:
        keys = [key_of(write) for write in job.writes]
        if all(map(_is_whole, job.writes)):
            # Only the last write of a document counts: it supersedes those before it.
            for position, earlier in previous(keys).items():
                job.earlier[job.rows[position]] = (job.rows[earlier], job.writes[earlier])
            groups = [[*last_ones(keys)]]
        else:
            groups = rounds(keys)
    return [job.only([*piece]) for group in groups for piece in pieces(group, job.plan.most)]


def _is_whole(write: Write) -> bool:
    """Whether the write replaces or deletes a whole document, which need not exist."""
    if set(write.filter) != {ID}:
        return False
    return write.kind is Kind.DELETE or (write.kind is Kind.REPLACE and write.upsert)


def key_of(write: Write) -> Hashable | None:
    """Identifies the document of a write: the `_id`, or the whole filter; None for a write that has
    neither."""
    query: dict[str, Any] = write.filter
    if write.kind is Kind.INSERT:
        if write.document is None or ID not in write.document:
            return None
        query = {ID: write.document[ID]}
    document_id = query.get(ID)
    if len(query) == 1 and isinstance(document_id, (str, bson.ObjectId)):
        return document_id
    try:
        return _comparable(query)
    except Exception:  # sending it fails, too
        return None


def _comparable(value: Any) -> Hashable:
    """Equal for values that the server regards as equal: numbers of any type by their value.

    >>> _comparable({"a": [1, bson.Int64(2)]}) == _comparable({"a": [1.0, bson.Decimal128("2.0")]})
    True
    >>> _comparable(1) == _comparable(True), _comparable(0.0) == _comparable(-0.0)
    (False, True)
    """
    if isinstance(value, bson.Decimal128):
        value = value.to_decimal()
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return ("number", "NaN" if value != value else value)
    if isinstance(value, Mapping):
        return ("document", *((name, _comparable(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("array", *map(_comparable, value))
    return bson.encode({"": value})
