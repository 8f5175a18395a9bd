"""Records into files: what is open, what is stored, what may be committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO

import fastavro
import pyarrow.parquet as pq
import pytest

from penstock.api import Column, Header, Records, Run
from penstock.api.schema import INT32, INT64, OPTIONAL_INT64, STRING, Value, struct
from penstock.connectors.files.stores.store import FileExists, StoreUnavailable
from penstock.connectors.files.write.files import OpenFiles
from penstock.connectors.files.write.plan import SchemaFolder

from .writer_task import AT, HOURLY, MemoryStore, Task, batch


def numbers(first: int, stop: int) -> Records:
    return batch(list(range(first, stop)), first=first)


def test_only_complete_files_are_there_and_committed() -> None:
    task = Task()
    assert task.committed() == 0
    task.write(numbers(0, 2))
    assert task.committed() == 0
    assert task.files == {}
    task.write(numbers(2, 8))
    assert task.committed() == 6
    assert task.files == {
        "partition=3/orders+3+0000000000.json": b"0\n1\n2\n",
        "partition=3/orders+3+0000000003.json": b"3\n4\n5\n",
    }
    task.write(numbers(8, 9))
    assert task.committed() == 9
    task.writer.close()


def test_incomplete_files_are_dropped_when_their_partition_is_revoked() -> None:
    task = Task()
    task.write(numbers(0, 5))
    task.flush()
    task.writer.revoked(frozenset({AT}), lost=False)
    assert task.committed() == 3
    task.writer.assigned({AT: 3})
    task.write(numbers(3, 6))
    assert task.committed() == 6
    task.writer.revoked(frozenset({AT}), lost=True)
    task.writer.close()
    assert sorted(task.files.values()) == [b"0\n1\n2\n", b"3\n4\n5\n"]


def test_nothing_is_committed_beyond_a_file_that_is_not_stored() -> None:
    task = Task()
    task.store.away = True
    task.write(numbers(0, 7))
    with pytest.raises(StoreUnavailable):
        task.flush()
    assert task.writer.pre_commit({AT: 7}) == {}
    with pytest.raises(StoreUnavailable):
        task.write(numbers(7, 8))
    task.store.away = False
    task.write(numbers(7, 8))
    assert task.committed() == 6
    assert sorted(task.files.values()) == [b"0\n1\n2\n", b"3\n4\n5\n"]
    task.writer.close()


def test_a_batch_that_the_store_does_not_take_yet_is_not_half_written() -> None:
    task = Task({"flush.size": "1"})
    task.store.away = True

    def write_all() -> None:
        for number in range(100):
            task.write(numbers(number, number + 1))

    with pytest.raises(StoreUnavailable):
        write_all()
    written = task.reached
    assert written < 20  # complete files do not pile up
    task.store.away = False
    task.write(numbers(written, 100))
    assert task.committed() == 100
    assert sorted(int(data) for data in task.files.values()) == list(range(100))
    task.writer.close()


def test_keys_and_headers_have_files_of_the_same_rows() -> None:
    settings = {
        "store.kafka.keys": "true",
        "store.kafka.headers": "true",
        "headers.format.class": "JsonFormat",
    }
    task = Task(settings)
    headers = [[Header("a", 1), Header("a", "x")], [], [], [Header("b", True)]]
    failed = task.write(
        batch(["v0", "\ud800", "v2", "v3"], keys=["k0", "k1", None, "k3"], key_schema=STRING,
              headers=headers)
    )  # fmt: skip
    assert sorted(failed) == [1, 2]
    task.write(batch(["v4"], first=4, keys=["k4"], key_schema=STRING))
    task.flush()
    files = {name.partition(".")[2]: data for name, data in task.files.items()}
    assert files["json"] == b'"v0"\n"v3"\n'
    assert list(fastavro.reader(BytesIO(files["keys.avro"]))) == ["k0", "k3"]
    assert [json.loads(line) for line in files["headers.json"].splitlines()] == [
        [{"key": "a", "value": "1"}, {"key": "a", "value": "x"}],
        [{"key": "b", "value": "true"}],
    ]
    assert len(task.files) == 3
    task.writer.close()


def test_in_parquet_keys_and_headers_are_the_only_field_of_a_struct() -> None:
    task = Task(
        {
            "store.kafka.keys": "true",
            "keys.format.class": "ParquetFormat",
            "store.kafka.headers": "true",
            "headers.format.class": "ParquetFormat",
        }
    )
    keys, headers = ["k0", "k1", "k2"], [[Header("a", 1)], [], []]
    task.write(batch(["v0", "v1", "v2"], keys=keys, key_schema=STRING, headers=headers))
    task.flush()
    files = {name.partition(".")[2]: data for name, data in task.files.items()}
    rows = {
        ending: pq.read_table(BytesIO(data)).to_pylist()
        for ending, data in files.items()
        if ending.endswith("parquet")
    }
    assert rows == {
        "keys.snappy.parquet": [{"key": key} for key in keys],
        "headers.snappy.parquet": [
            {"headers": [{"key": "a", "value": "1"}]},
            {"headers": []},
            {"headers": []},
        ],
    }
    task.writer.close()


def test_a_refused_record_counts_for_where_a_file_ends() -> None:
    task = Task()
    task.write(batch(["a", "\ud800", "c", "\ud801", "\ud802", "\ud803", "g"]))
    assert task.committed() == 6
    assert list(task.files.values()) == [b'"a"\n"c"\n']
    task.writer.close()


NULLS = ["a", None, None, "d", "e"]


def test_records_without_a_value_are_errors() -> None:
    task = Task()
    failed = task.write(batch(NULLS))
    assert sorted(failed) == [1, 2]
    assert task.committed() == 5
    assert list(task.files.values()) == [b'"a"\n"d"\n"e"\n']
    task.writer.close()


@pytest.mark.parametrize(("tolerates", "reported"), [(True, [1, 2]), (False, [])])
def test_records_without_a_value_are_left_out(tolerates: bool, reported: list[int]) -> None:
    task = Task({"behavior.on.null.values": "ignore"}, tolerates_errors=tolerates)
    assert sorted(task.write(batch(NULLS))) == reported
    assert list(task.files.values()) == [b'"a"\n"d"\n"e"\n']
    task.write(batch([None], first=5))
    assert task.committed() == 6
    task.writer.close()


def test_keys_of_records_without_a_value_have_a_folder() -> None:
    settings = {
        "behavior.on.null.values": "write",
        "store.kafka.keys": "true",
        "keys.format.class": "JsonFormat",
    }
    task = Task(settings)
    task.write(batch(NULLS, keys=["k0", "k1", "k2", "k3", "k4"]))
    task.flush()
    assert task.files == {
        "partition=3/orders+3+0000000000.json": b'"a"\n',
        "partition=3/orders+3+0000000000.keys.json": b'"k0"\n',
        "tombstone/orders+3+0000000001.keys.json": b'"k1"\n"k2"\n',
    }
    task.writer.close()


def test_a_schema_that_a_format_does_not_have_is_the_fault_of_its_records() -> None:
    task = Task({"format.class": "ParquetFormat"})
    assert list(task.write(numbers(0, 4))) == [0, 1, 2, 3]
    assert task.committed() == 3
    task.writer.close()


OLD = struct({"id": INT32}, name="row", version=1)
NEW = struct({"id": INT64, "size": OPTIONAL_INT64}, name="row", version=2)


def test_older_schemas_are_projected() -> None:
    task = Task({"schema.compatibility": "BACKWARD", "flush.size": "4"})
    new: list[Value] = [{"id": 1, "size": 2}]
    records = Records.together(batch(new, schema=NEW), batch([{"id": 2}, {"id": 3}], schema=OLD))
    records = batch(new * 3).with_values(
        Column.gather([{"id": 1, "size": 2}, {"id": 2}, {"id": None}], [NEW, OLD, OLD])
    )
    failed = task.write(records)
    assert list(failed) == [2]
    task.write(batch([{"id": 4}], first=3, schema=OLD))
    task.flush()
    (data,) = task.files.values()
    assert [json.loads(line) for line in data.splitlines()] == [
        {"id": 1, "size": 2},
        {"id": 2, "size": None},
        {"id": 4, "size": None},
    ]
    task.writer.close()


def test_folders_of_times() -> None:
    hour = 3_600_000
    task = Task({**HOURLY, "timestamp.extractor": "Record", "rotate.interval.ms": str(hour)})
    times = [0, hour - 1, None, hour, hour + 5]
    assert list(task.write(batch(list("abcde"), times=times))) == [2]
    assert task.committed() == 3
    assert task.files == {
        "year=1970/month=01/day=01/hour=00/orders+3+0000000000.json": b'"a"\n"b"\n'
    }
    task.writer.close()


def test_times_in_fields() -> None:
    settings = {"timestamp.extractor": "RecordField", "timestamp.field": "at.ms", "flush.size": "4"}
    task = Task({**HOURLY, **settings})
    values: list[Value] = [{"at": {"ms": 0}}, {"at": 5}, {"at": {"ms": "1970-01-01T02:00:00"}}, 7]
    failed = task.write(batch(values))
    assert [str(failed[row]) for row in (1, 3)] == [
        "The record has no field 'at.ms', which timestamp.field names"
    ] * 2
    task.write(batch(values[:1] * 2, first=4))
    task.flush()
    assert sorted(task.files) == [
        "year=1970/month=01/day=01/hour=00/orders+3+0000000000.json",
        "year=1970/month=01/day=01/hour=02/orders+3+0000000002.json",
    ]
    task.writer.close()


def test_folders_of_fields() -> None:
    field = {"partitioner.class": "FieldPartitioner", "partition.field.name": "a,b"}
    task = Task(field)
    values = [{"a": "x/y", "b": 1}, {"a": None, "b": True}, {"a": "x/y", "b": 1}, {"a": "z"}]
    assert list(task.write(batch(values))) == [3]
    task.flush()
    assert sorted(task.files) == [
        "a=null/b=true/orders+3+0000000001.json",
        "a=x%2Fy/b=1/orders+3+0000000000.json",
    ]
    task.writer.close()


def test_folders_of_nested_fields() -> None:
    field = {"partitioner.class": "FieldPartitioner", "partition.field.name": "m.c"}
    task = Task(field)
    values = [{"m": {"c": "de"}}, {"m": None}, {"m.c": "fr"}, {"m": {}}]
    failed = task.write(batch(values))
    assert {row: str(error) for row, error in failed.items()} == {
        3: "The record has no field 'm.c', which partition.field.name names"
    }
    task.flush()
    assert sorted(name.rpartition("/")[0] for name in task.files) == [
        "m.c=de",
        "m.c=fr",
        "m.c=null",
    ]
    task.writer.close()


def test_times_as_text_name_folders_and_bad_ones_name_their_field() -> None:
    task = Task({**HOURLY, "timestamp.extractor": "RecordField", "timestamp.field": "m.ts"})
    values = [{"m": {"ts": ts}} for ts in ("1700000000000", 1700000000000.0, "2023-11", "soon")]
    failed = task.write(batch(values))
    assert list(failed) == [3]
    assert str(failed[3]).startswith("Field 'm.ts' (timestamp.field) contains 'soon'")
    task.flush()
    assert sorted(name.rpartition("/")[0] for name in task.files) == [
        "year=2023/month=11/day=01/hour=00",
        "year=2023/month=11/day=14/hour=22",
    ]
    task.writer.close()


@pytest.mark.parametrize(
    ("where", "settings", "folders"),
    [
        (
            SchemaFolder.PREFIX,
            {},
            ["schema_name=a%2Fb/partition=3", "schema_name=null/partition=3"],
        ),
        (
            SchemaFolder.SUFFIX,
            {"partitioner.class": "FieldPartitioner", "partition.field.name": "id"},
            ["id=1/schema_name=a%2Fb", "id=2/schema_name=a%2Fb", "id=3/schema_name=null"],
        ),
    ],
)
def test_names_of_schemas_are_folders(
    where: SchemaFolder, settings: Mapping[str, str], folders: list[str]
) -> None:
    named, unnamed = struct({"id": INT64}, name="a/b"), struct({"id": INT64})
    records = batch([{"id": 1}, {"id": 2}, {"id": 3}])
    records.values.runs[:] = [Run(2, named), Run(3, unnamed)]
    task = Task({**settings, "flush.size": "3"}, schema_folder=where)
    assert task.write(records) == {}
    task.flush()
    assert sorted(name.rpartition("/")[0] for name in task.files) == folders
    task.writer.close()


def test_files_are_completed_by_the_clock_when_no_records_come() -> None:
    task = Task({"rotate.schedule.interval.ms": "60000", "timezone": "Asia/Kolkata"})
    assert task.writer.idle_ms
    task.write(numbers(0, 2))
    task.writer.idle()
    assert task.committed() is None
    task.clock.now += 60_000
    task.writer.idle()
    assert task.committed() == 2
    assert list(task.files.values()) == [b"0\n1\n"]
    task.writer.idle()
    task.writer.close()


def test_the_clock_does_not_complete_what_another_task_writes_again() -> None:
    task = Task({"rotate.schedule.interval.ms": "60000", "timezone": "UTC"})
    task.write(numbers(0, 2))
    task.writer.revoked(frozenset({AT}), lost=False)
    task.clock.now += 60_000
    task.writer.idle()
    assert task.committed() is None
    assert task.files == {}
    task.writer.close()


def test_with_wallclock_files_are_completed_when_no_records_come() -> None:
    task = Task({**HOURLY, "rotate.interval.ms": "60000"})
    task.write(numbers(0, 2))
    task.clock.now += 60_000
    task.writer.idle()
    assert task.committed() == 2
    task.writer.close()


def test_without_a_schedule_nobody_asks_for_the_clock() -> None:
    assert Task().writer.idle_ms == 0


def test_rotation_by_time_needs_to_be_told_by_which(caplog: pytest.LogCaptureFixture) -> None:
    task = Task({"rotate.interval.ms": "10", "retry.backoff.ms": "1"})
    assert "Ignoring rotate.interval.ms" in caplog.text
    task.write(batch(["a", "b"], times=[0, 100]))
    assert task.committed() is None
    other = Task({"rotate.interval.ms": "10", "timestamp.extractor": "Record"})
    other.write(batch(["a", "b"], times=[0, 100]))
    assert other.committed() == 1
    for each in (task, other):
        each.writer.close()


def test_records_of_a_topic_that_was_created_again_are_not_held_to_be_stored() -> None:
    task = Task({"flush.size": "3"})
    task.write(numbers(0, 5))
    assert task.committed() == 3
    task.write(numbers(0, 2))  # without a seek
    assert task.committed() in (None, 0)
    task.write(numbers(2, 4))
    assert task.committed() == 3
    assert task.files["partition=3/orders+3+0000000000.json"] == b"0\n1\n2\n"
    assert task.files["partition=3/orders+3+0000000003.json"] == b"3\n4\n", "it was dropped"


def test_files_of_a_topic_that_was_created_again_do_not_hide_its_new_records() -> None:
    store = MemoryStore({})
    schedule = {"rotate.schedule.interval.ms": "3600000", "timezone": "UTC"}
    first = Task(schedule, store, create_only=True)
    first.write(numbers(0, 3))
    first.flush()
    task = Task({**schedule, "flush.size": "9"}, store, create_only=True)
    task.write(numbers(0, 2))
    task.context.lineages[AT] = "2"
    task.write(batch(["new 0"], first=0))
    with suppress(FileExists):  # what was left is stored under the same name
        task.flush()
    task.write(batch(["new 1"], first=1))
    task.clock.now += 3_600_000
    task.writer.idle()
    assert task.committed() == 2
    assert task.context.sought == []
    assert task.files == {"partition=3/orders+3+0000000000.json": b'"new 0"\n"new 1"\n'}


def test_a_flush_after_an_error_that_fails_the_task_never_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = Task({"flush.size": "2"})

    def finish(self: OpenFiles) -> None:
        raise RuntimeError("a bug of a format")

    with monkeypatch.context() as patch:
        patch.setattr(OpenFiles, "finish", finish)
        with pytest.raises(RuntimeError):
            task.write(numbers(0, 2))
    with pytest.raises(RuntimeError, match="a bug of a format"):
        task.flush()
    with pytest.raises(RuntimeError, match="a bug of a format"):
        task.flush()


def test_files_without_a_refused_record_are_not_stored_when_others_trust_their_last_offset() -> (
    None
):
    schedule = {
        "rotate.schedule.interval.ms": "3600000",
        "timezone": "UTC",
        "flush.size": "3",
        "behavior.on.null.values": "fail",
    }
    task = Task(schedule, create_only=True)
    task.write(numbers(0, 2))
    assert list(task.write(batch([None, 3, 4, 5], first=2))) == [0]
    task.flush()
    assert task.writer.pre_commit({AT: 2}).get(AT, 0) == 0
    assert task.files == {}
    task.writer.close()
    again = Task(schedule, task.store, create_only=True, tolerates_errors=True)
    again.write(numbers(0, 2))
    assert list(again.write(batch([None, 3, 4, 5], first=2))) == [0]
    again.clock.now += 3_600_000
    again.writer.idle()
    assert again.committed() == 6
    assert again.context.sought == []
