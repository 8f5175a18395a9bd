"""Every record both ways, as bytes captured from or specified for Kafka Connect 4.2.0."""

from __future__ import annotations

import pytest

from penstock.cluster.offset_records import (
    OffsetRecord,
    decode_offset,
    encode_offset,
    partition_key,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    SkippedRecord,
    State,
    Status,
    StatusRecord,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
    TaskStatus,
    TopicStatus,
    TopicUse,
    decode_config,
    decode_status,
    encode_config,
    encode_status,
)
from penstock.data.java_maps import hash_map_order
from penstock.errors import DataError
from penstock.ids import TaskId

CONFIG: list[tuple[ConfigRecord, str, str | None]] = [
    (
        ConnectorConfig("my-sink", {"name": "my-sink", "a": 'ü/"\\', "none": None}),
        "connector-my-sink",
        '{"properties":{"name":"my-sink","a":"ü/\\"\\\\","none":null}}',
    ),
    (ConnectorConfig("c", None), "connector-c", None),
    (ConnectorConfig("c", {}), "connector-c", '{"properties":{}}'),
    (TaskConfig(TaskId("a-b", 10), {"x": "1"}), "task-a-b-10", '{"properties":{"x":"1"}}'),
    (TaskConfig(TaskId("ends-", 0), {}), "task-ends--0", '{"properties":{}}'),
    (TaskCommit("c", 3), "commit-c", '{"tasks":3}'),
    (
        TargetState("c", Target.STARTED),
        "target-state-c",
        '{"state":"STARTED","state.v2":"STARTED"}',
    ),
    (TargetState("c", Target.PAUSED), "target-state-c", '{"state":"PAUSED","state.v2":"PAUSED"}'),
    (TargetState("c", Target.STOPPED), "target-state-c", '{"state":"PAUSED","state.v2":"STOPPED"}'),
    (TargetState("c", None), "target-state-c", None),
    (TaskFencing("c", 2), "tasks-fencing-c", '{"task-count":2}'),
    (
        SessionKey(b"\x00\xff\x10", "HmacSHA256", 1_700_000_000_000),
        "session-key",
        '{"key":"AP8Q","algorithm":"HmacSHA256","creation-timestamp":1700000000000}',
    ),
    (
        RestartRequest("c", include_tasks=True, only_failed=False),
        "restart-connector-c",
        '{"include-tasks":true,"only-failed":false}',
    ),
    (LoggerLevel("org.x", "DEBUG"), "logger-cluster-org.x", '{"level":"DEBUG"}'),
]


@pytest.mark.parametrize(("record", "key", "value"), CONFIG)
def test_config_records_have_exactly_these_bytes(
    record: ConfigRecord, key: str, value: str | None
) -> None:
    data = (key.encode(), None if value is None else value.encode())
    assert encode_config(record) == data
    assert decode_config(*data) == record


TOLERATED: list[tuple[str, str | None, ConfigRecord]] = [
    ("connector-c", '{"more":1, "properties": {"b":"2"}}', ConnectorConfig("c", {"b": "2"})),
    ("connector-c", "null", ConnectorConfig("c", None)),
    ("connector-c", " ", ConnectorConfig("c", None)),
    ("target-state-c", '{"state":"PAUSED"}', TargetState("c", Target.PAUSED)),
    ("target-state-c", '{"state":"PAUSED","state.v2":7}', TargetState("c", Target.PAUSED)),
    ("target-state-c", '{"state.v2":"STOPPED"}', TargetState("c", Target.STOPPED)),
    ("target-state-connector-c", None, TargetState("connector-c", None)),
    ("restart-connector-c", "{}", RestartRequest("c", False, False)),
    ("restart-connector-c", '{"only-failed":"true"}', RestartRequest("c", False, False)),
    ("restart-connector-c", '{"only-failed":true}', RestartRequest("c", False, True)),
]


@pytest.mark.parametrize(("key", "value", "record"), TOLERATED)
def test_config_readers_are_tolerant(key: str, value: str | None, record: ConfigRecord) -> None:
    assert decode_config(key.encode(), None if value is None else value.encode()) == record


SKIPPED_CONFIG: list[tuple[str, str | None]] = [
    ("connector-c", "[]"),
    ("connector-c", "{}"),
    ("connector-c", '{"properties":"x"}'),
    ("connector-c", '{"properties":{"a":1}}'),
    ("task-c-0", None),
    ("task-c-0", "{}"),
    ("task-0", '{"properties":{}}'),
    ("task-c-x", '{"properties":{}}'),
    ("task-c-", '{"properties":{}}'),
    ("task-c- 1", '{"properties":{}}'),
    ("task-c-²", '{"properties":{}}'),
    ("task-c-99999999999", '{"properties":{}}'),
    ("commit-c", None),
    ("commit-c", "{}"),
    ("commit-c", '{"tasks":"1"}'),
    ("commit-c", '{"tasks":1.0}'),
    ("commit-c", '{"tasks":true}'),
    ("commit-c", '{"tasks":-1}'),
    ("target-state-c", '{"state":"GONE"}'),
    ("target-state-c", '{"state":"PAUSED","state.v2":"GONE"}'),
    ("target-state-c", '{"state":null}'),
    ("target-state-c", "3"),
    ("tasks-fencing-c", None),
    ("tasks-fencing-c", '{"task-count":null}'),
    ("session-key", None),
    ("session-key", '{"key":"AP8Q","algorithm":"HmacSHA256"}'),
    ("session-key", '{"key":"%","algorithm":"HmacSHA256","creation-timestamp":1}'),
    ("session-key", '{"key":"AP8Q","algorithm":"HmacSHA256","creation-timestamp":1.5}'),
    ("session-key-2", '{"key":"AP8Q","algorithm":"HmacSHA256","creation-timestamp":1}'),
    ("restart-connector-c", None),
    ("restart-connector-c", "true"),
    ("logger-cluster-x", None),
    ("logger-cluster-x", '{"level":5}'),
    ("something", "{}"),
]


@pytest.mark.parametrize(("key", "value"), SKIPPED_CONFIG)
def test_foreign_records_of_the_config_topic_are_skipped(key: str, value: str | None) -> None:
    skipped = decode_config(key.encode(), None if value is None else value.encode())
    assert isinstance(skipped, SkippedRecord)
    assert not skipped.unreadable


def test_a_value_that_is_not_json_is_skipped_as_unreadable() -> None:
    skipped = decode_config(b"connector-c", b"{")
    assert isinstance(skipped, SkippedRecord)
    assert skipped.unreadable


@pytest.mark.parametrize("key", [None, b"\xff"])
def test_a_key_that_is_no_text_is_skipped(key: bytes | None) -> None:
    assert isinstance(decode_config(key, b"{}"), SkippedRecord)
    assert isinstance(decode_status(key, b"{}"), SkippedRecord)


def test_text_is_spelled_as_jackson_spells_it() -> None:
    _, value = encode_config(ConnectorConfig("c", {"a/b": "é\x00\x1b\u2029𝄞\t\\u00ab", "n": None}))
    assert value is not None
    spelled = '{"properties":{"a/b":"é\\u0000\\u001B\u2029\\uD834\\uDD1E\\t\\\\u00ab","n":null}}'
    assert value.decode() == spelled


def test_a_session_key_does_not_show_itself() -> None:
    assert "secret" not in repr(SessionKey(b"secret", "HmacSHA256", 0))


STATUS: list[tuple[StatusRecord, str, str | None]] = [
    (
        ConnectorStatus("c-d", Status(State.RUNNING, "10.0.0.1:8083", 7, None, "4.2.0")),
        "status-connector-c-d",
        '{"state":"RUNNING","trace":null,"worker_id":"10.0.0.1:8083","generation":7,'
        '"version":"4.2.0"}',
    ),
    (
        TaskStatus(TaskId("c-d", 12), Status(State.FAILED, "w:1", 0, "a\n\tat b")),
        "status-task-c-d-12",
        '{"state":"FAILED","trace":"a\\n\\tat b","worker_id":"w:1","generation":0,"version":null}',
    ),
    (ConnectorStatus("c", None), "status-connector-c", None),
    (TaskStatus(TaskId("c", 0), None), "status-task-c-0", None),
    (
        TopicStatus("t-1", "c:connector-d", TopicUse(0, 1_700_000_000_000)),
        "status-topic-t-1:connector-c:connector-d",
        '{"topic":{"name":"t-1","connector":"c:connector-d","task":0,'
        '"discoverTimestamp":1700000000000}}',
    ),
    (TopicStatus("t", "c", None), "status-topic-t:connector-c", None),
]


@pytest.mark.parametrize(("record", "key", "value"), STATUS)
def test_status_records_have_exactly_these_bytes(
    record: StatusRecord, key: str, value: str | None
) -> None:
    data = (key.encode(), None if value is None else value.encode())
    assert encode_status(record) == data
    assert decode_status(*data) == record


def test_destroyed_is_written_as_a_tombstone() -> None:
    destroyed = Status(State.DESTROYED, "w", 1)
    assert encode_status(ConnectorStatus("c", destroyed)) == (b"status-connector-c", None)
    assert encode_status(TaskStatus(TaskId("c", 1), destroyed)) == (b"status-task-c-1", None)


def test_a_status_without_a_trace_is_read() -> None:
    value = b'{"generation":1,"worker_id":"w","state":"PAUSED","new":[]}'
    expected = ConnectorStatus("c", Status(State.PAUSED, "w", 1))
    assert decode_status(b"status-connector-c", value) == expected


SKIPPED_STATUS: list[tuple[str, str]] = [
    ("status-connector-", '{"state":"RUNNING","worker_id":"w","generation":1}'),
    ("status-connector-c", '{"state":"RUNNING","worker_id":"w","generation":1.0}'),
    ("status-connector-c", '{"state":"RUNNING","worker_id":"w"}'),
    ("status-connector-c", '{"state":"RUNNING","generation":1}'),
    ("status-connector-c", '{"state":"running","worker_id":"w","generation":1}'),
    ("status-connector-c", '{"state":"RUNNING","worker_id":"w","generation":1,"trace":{}}'),
    ("status-connector-c", "[]"),
    ("status-connector-c", "{"),
    ("status-task-0", '{"state":"RUNNING","worker_id":"w","generation":1}'),
    ("status-task-c-x", '{"state":"RUNNING","worker_id":"w","generation":1}'),
    ("status-topic-t", "{}"),
    ("status-topic-:connector-c", '{"topic":{"task":0,"discoverTimestamp":1}}'),
    ("status-topic-t:connector-", '{"topic":{"task":0,"discoverTimestamp":1}}'),
    ("status-topic-t:konnector-c", '{"topic":{"task":0,"discoverTimestamp":1}}'),
    ("status-topic-t:connector-c", '{"topic":{"task":0,"discoverTimestamp":1.0}}'),
    ("status-topic-t:connector-c", '{"topic":[]}'),
    ("status-other", "{}"),
]


@pytest.mark.parametrize(("key", "value"), SKIPPED_STATUS)
def test_foreign_records_of_the_status_topic_are_skipped(key: str, value: str) -> None:
    assert isinstance(decode_status(key.encode(), value.encode()), SkippedRecord)


OFFSETS: list[tuple[OffsetRecord, str, str | None]] = [
    (
        OffsetRecord("local-file-source", {"filename": "test.txt"}, {"position": 30}),
        '["local-file-source",{"filename":"test.txt"}]',
        '{"position":30}',
    ),
    (OffsetRecord("c", {}, {}), '["c",{}]', "{}"),
    (
        OffsetRecord("ø", {"server": "s/1"}, None),
        '["ø",{"server":"s/1"}]',
        None,
    ),
    (
        OffsetRecord(
            "c",
            {"server": "s", "database": "d", "table": "t", "schema": "x"},
            {"a": None, "b": True, "c": 0.1, "d": 1e7, "e": -(2**63)},
        ),
        '["c",{"schema":"x","server":"s","database":"d","table":"t"}]',
        '{"a":null,"b":true,"c":0.1,"d":1.0E7,"e":-9223372036854775808}',
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), OFFSETS)
def test_offset_records_have_exactly_these_bytes(
    record: OffsetRecord, key: str, value: str | None
) -> None:
    data = (key.encode(), None if value is None else value.encode())
    assert encode_offset(record) == data
    assert decode_offset(*data) == record


def test_a_key_equals_the_one_connect_json_writes() -> None:
    partition = {
        "server": 's/1\x1f\x0b\x7f"\\\b\u2028😀',
        "database": None,
        "table": 1.5e10,
        "nan": float("nan"),
        "i": -(2**63),
        "b": True,
        "f": 0.1,
        "u": "\\u001f",
        "g": 1e-7,
    }
    key, _ = encode_offset(OffsetRecord("cø", partition, None))
    assert key.decode() == (
        '["cø",{"server":"s/1\\u001F\\u000B\x7f\\"\\\\\\b\u2028\\uD83D\\uDE00","database":null,'
        '"b":true,"u":"\\\\u001f","f":0.1,"g":1.0E-7,"i":-9223372036854775808,"nan":"NaN",'
        '"table":1.5E10}]'
    )


DOUBLES: list[tuple[float, str]] = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (12.5, "12.5"),
    (100.0, "100.0"),
    (0.001, "0.001"),
    (-2.5e-4, "-2.5E-4"),
    (9999999.5, "9999999.5"),
    (1e7, "1.0E7"),
    (123456789.0, "1.23456789E8"),
    (1e22, "1.0E22"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (float("inf"), '"Infinity"'),
    (float("-inf"), '"-Infinity"'),
]


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_doubles_are_spelled_as_java_spells_them(value: float, text: str) -> None:
    _, data = encode_offset(OffsetRecord("c", {}, {"x": value}))
    assert data == f'{{"x":{text}}}'.encode()


def test_a_known_partition_keeps_the_key_bytes_it_has() -> None:
    stored = b'["c", {"b":1,"a":2}]'
    key, _ = encode_offset(OffsetRecord("c", {"a": 2, "b": 1}, {"p": 1}), stored)
    assert key == stored


SKIPPED_OFFSETS: list[tuple[bytes | None, bytes | None]] = [
    (None, b"{}"),
    (b"", b"{}"),
    (b"c", b"{}"),
    (b'["c"]', b"{}"),
    (b'["c",null]', b"{}"),
    (b'["c",[]]', b"{}"),
    (b'[1,{"a":1}]', b"{}"),
    (b'["c",{"a":{}}]', b"{}"),
    (b'["c",{"a":1},2]', b"{}"),
    (b'["c",{"a":1}]', b"[]"),
    (b'["c",{"a":1}]', b'{"a":[]}'),
    (b'["c",{"a":1}]', b"{"),
]


@pytest.mark.parametrize(("key", "value"), SKIPPED_OFFSETS)
def test_foreign_records_of_the_offset_topic_are_skipped(
    key: bytes | None, value: bytes | None
) -> None:
    assert isinstance(decode_offset(key, value), SkippedRecord)


REFUSED: list[tuple[object, str]] = [
    ({"f": {"nested": 1}}, "field f contains dict"),
    ({"f": [1]}, "field f contains list"),
    ({"f": b"x"}, "field f contains bytes"),
    ({1: "x"}, "Offsets may only use String keys"),
    ({"f": 2**63}, "64-bit"),
    ({"f": "\ud800"}, "cannot be written as JSON"),
]


@pytest.mark.parametrize(("offset", "message"), REFUSED)
def test_an_offset_that_cannot_be_stored_is_refused(offset: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode_offset(OffsetRecord("c", {}, offset))  # type: ignore[arg-type]  # on purpose


HASH_MAPS = [
    ("server,database,table,schema", "schema,server,database,table"),
    ("topic,partition,cluster", "cluster,partition,topic"),
    ("b,a,Aa,BB,c", "Aa,BB,a,b,c"),
    ("ключ,emoji😀,ß,key", "ключ,emoji😀,key,ß"),
    (
        "k0,k1,k2,k3,k4,k5,k6,k7,k8,k9,k10,k11,k12,k13,k14",
        "k0,k1,k2,k3,k4,k5,k11,k6,k10,k7,k13,k8,k12,k9,k14",
    ),
    ("filename,position,AaAa,BBBB,AaBB,BBAa", "filename,position,AaAa,BBBB,AaBB,BBAa"),
]


@pytest.mark.parametrize(("put", "listed"), HASH_MAPS)
def test_keys_come_in_the_order_of_a_java_hash_map(put: str, listed: str) -> None:
    assert hash_map_order(put.split(",")) == listed.split(",")


def test_partitions_are_looked_up_whatever_the_order_of_their_members() -> None:
    assert partition_key({"a": 1, "b": "x"}) == partition_key({"b": "x", "a": 1})
    assert len({partition_key({"a": value}) for value in (1, 1.0, True, "1", None)}) == 5
