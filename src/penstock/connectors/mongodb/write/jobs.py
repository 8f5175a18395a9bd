"""A batch of records as jobs: the writes for one collection, in the records' order."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
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
    """The writes of one bulk, by the rows of their records. `earlier`: by row, the write that comes
    into its own if that row's is refused. `repeated`: some of it may have been done before."""

    plan: Plan
    namespace: Namespace
    rows: list[int]
    writes: list[Write]
    earlier: dict[int, tuple[int, Write]] = field(default_factory=dict)
    repeated: bool = False

    def only(self, places: list[int]) -> Job:
        """The writes at these places."""
        return Job(
            self.plan,
            self.namespace,
            [self.rows[at] for at in places],
            [self.writes[at] for at in places],
            self.earlier,
            self.repeated,
        )


def jobs_of(records: Records, plan_of: Callable[[str], Plan], refused: Failed) -> list[Job]:
    """What a batch comes to, a collection at a time. A record that cannot be written has an entry
    in `refused`."""
    groups: dict[tuple[str, Namespace], Job] = {}
    for entry, plan in _entries(records, plan_of, refused):
        try:
            found = plan.write_of(entry)
        except (DataError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            refused[entry.row] = _as_data_error(error)
            continue
        if found is None:
            continue
        namespace, write = found
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
    """The bulks of a job. If the server may do the writes of one in any order, none of them has two
    of one document."""
    if job.plan.ordered:
        chosen: list[list[int]] = [[*range(len(job.rows))]]
    else:
        keys = [key_of(write) for write in job.writes]
        if all(map(_is_whole, job.writes)):
            # The last one counts, and leaves nothing of those before it.
            for place, before in previous(keys).items():
                job.earlier[job.rows[place]] = (job.rows[before], job.writes[before])
            chosen = [[*last_ones(keys)]]
        else:
            chosen = rounds(keys)
    return [job.only([*piece]) for places in chosen for piece in pieces(places, job.plan.most)]


def _is_whole(write: Write) -> bool:
    """Whether the write leaves nothing of the document as it was before, and needs none."""
    if set(write.filter) != {ID}:
        return False
    return write.kind is Kind.DELETE or (write.kind is Kind.REPLACE and write.upsert)


def key_of(write: Write) -> Hashable | None:
    """What tells the documents of writes apart: the `_id`, or the whole filter; None for one that
    has neither."""
    where: dict[str, Any] = write.filter
    if write.kind is Kind.INSERT:
        if write.document is None or ID not in write.document:
            return None
        where = {ID: write.document[ID]}
    found = where.get(ID)
    if len(where) == 1 and isinstance(found, (str, bson.ObjectId)):
        return found
    try:
        return bson.encode(where)
    except Exception:  # it is refused when it is sent, whatever is wrong with it
        return None
