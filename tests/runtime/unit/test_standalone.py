"""The parts of a standalone worker: its settings, logs, group and offset file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from penstock.cli import start
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.errors import ConfigInvalid, StartupFailed
from penstock.ids import TaskId
from penstock.kafka.group import Callbacks
from penstock.kafka.log import LogEntry
from penstock.offsets.file import FileLog, OffsetFileInvalid, Offsets, decode, encode, read, write
from penstock.runtime.reload import Held, Reloads
from penstock.runtime.standalone import GroupOfOne, MemoryLog, lone_config
from penstock.testing.waiting import wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {
    "bootstrap.servers": "broker:9092",
    "key.converter": STRING,
    "value.converter": STRING,
    "offset.storage.file.filename": "/offsets",
}


def test_a_lone_worker_has_its_settings_and_those_of_a_cluster_at_their_defaults() -> None:
    given = {
        "offset.flush.interval.ms": "7",
        "exactly.once.source.support": "enabled",  # clusters only
        "group.id": "somebody",
        "penstock.restart.policy": "any",
        "producer.acks": "1",
    }
    config = lone_config({**WORKER, **given})
    assert config[keys.OFFSET_FLUSH_INTERVAL] == 7
    assert config[keys.OFFSET_STORAGE_FILE] == "/offsets"
    assert config[keys.EXACTLY_ONCE_SOURCE_SUPPORT] == "disabled"
    assert config[keys.GROUP_ID] == ""
    assert config[keys.WORKER_SYNC_TIMEOUT] == 3_000
    assert config.under("producer.") == {"acks": "1"}


def test_a_lone_worker_needs_its_file_and_no_topics() -> None:
    with pytest.raises(ConfigInvalid) as raised:
        lone_config({name: text for name, text in WORKER.items() if "file" not in name})
    assert raised.value.problems == (
        'Missing required configuration "offset.storage.file.filename" which has no default value.',
    )


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("A_B", "a.b"),
        ("A__B", "a_b"),
        ("A___B", "a-b"),
        ("A____B", "a-_b"),
        ("A_____B", "a-_b"),
        ("A______B", "a--b"),
        ("A_B__C___D", "a.b_c-d"),
    ],
)
def test_underscores_in_variables_are_read_as_in_the_container_images(
    variable: str, name: str
) -> None:
    assert worker_config.from_environment({f"CONNECT_{variable}": "x"}) == {name: "x"}


def test_settings_come_from_a_file_from_variables_and_from_both(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("group.id=file\nlisteners=http://:1\n")
    environ = {
        "CONNECT_GROUP_ID": "variable",
        "CONNECT_SASL_JAAS_CONFIG": r'x required username="a\\b";',  # as in a properties file
        "HOME": "x",
    }
    variables = {"group.id": "variable", "sasl.jaas.config": 'x required username="a\\b";'}
    assert start.worker_settings(None, environ) == variables
    assert start.worker_settings(file, environ) == {**variables, "listeners": "http://:1"}
    assert start.worker_settings(file, {}) == {"group.id": "file", "listeners": "http://:1"}
    with pytest.raises(StartupFailed, match="Cannot read the worker file"):
        start.worker_settings(tmp_path / "none", environ)


def test_records_appended_to_memory_have_been_received() -> None:
    seen: list[LogEntry] = []
    log = MemoryLog(seen.extend)
    log.start()
    assert log.append(b"k", b"1").result(0) == (0, 0)
    assert log.append(b"k", None).result(0) == (0, 1)
    log.read_to_end(0.0)
    assert seen == [LogEntry(0, 0, b"k", b"1"), LogEntry(0, 1, b"k", None)]


def test_the_only_member_leads_every_round() -> None:
    rounds: list[tuple[int, str, str, bytes]] = []
    asked: list[tuple[str, str, int, Mapping[str, bytes]]] = []

    def perform_assignment(
        member: str, name: str, generation: int, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        asked.append((member, name, generation, members))
        return {member: b"work %d" % generation}

    group = GroupOfOne(
        Callbacks(
            offers=lambda: [("compatible", b"new"), ("default", b"old")],
            perform_assignment=perform_assignment,
            joined=lambda *round: rounds.append(round),
            lost=lambda _: pytest.fail("there is no coordinator to lose"),
        )
    )
    group.join()
    group.join()
    wait_until(lambda: len(rounds) == 2, 5, "two rounds")
    group.leave(1.0)
    group.join()  # too late, but no error
    assert rounds == [(n, "alone", "compatible", b"work %d" % n) for n in (1, 2)]
    assert asked[0] == ("alone", "compatible", 1, {"alone": b"new"})


def test_a_round_the_loop_is_too_busy_for_is_held_again() -> None:
    answers = iter([TimeoutError("busy"), None])
    done: list[int] = []

    def offers() -> Sequence[tuple[str, bytes]]:
        problem = next(answers)
        if problem is not None:
            raise problem
        return [("compatible", b"")]

    group = GroupOfOne(
        Callbacks(
            offers=offers,
            perform_assignment=lambda member, name, generation, members: {member: b""},
            joined=lambda generation, *_: done.append(generation),
            lost=lambda _: None,
        )
    )
    group.join()
    wait_until(lambda: done == [1], 5, "a round")
    group.leave(1.0)


HASH_MAP = "73720011" + b"java.util.HashMap".hex() + "0507dac1c31660d1030002"
FIELDS = "46000a" + b"loadFactor".hex() + "490009" + b"threshold".hex() + "7870"
BYTES = "757200025b42acf317f8060854e002000078700000000"
"""The class of byte arrays, and the first digits of a length below 16."""

FILES: dict[str, tuple[Offsets, str]] = {
    "empty": ({}, f"aced0005{HASH_MAP}{FIELDS}3f40000000000000770800000010000000" + "0078"),
    "one": (
        {b"k": b"vv"},
        f"aced0005{HASH_MAP}{FIELDS}3f4000000000000c77080000001000000001"
        f"{BYTES}16b"  # the key
        "7571007e000200000002767678",
    ),
    "forgotten": (
        {b"k": None},
        f"aced0005{HASH_MAP}{FIELDS}3f4000000000000c77080000001000000001{BYTES}16b7078",
    ),
    "no key": (
        {None: b"v"},
        f"aced0005{HASH_MAP}{FIELDS}3f4000000000000c7708000000100000000170{BYTES}17678",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_what_java_writes(name: str) -> None:
    offsets, text = FILES[name]
    assert encode(offsets).hex() == text
    assert decode(bytes.fromhex(text)) == offsets


@pytest.mark.parametrize(
    ("size", "buckets"), [(12, 16), (13, 32), (24, 32), (25, 64), (1000, 2048)]
)
def test_the_table_grows_as_javas_does(size: int, buckets: int) -> None:
    offsets: Offsets = {b"%d" % n: b"v" * n for n in range(size)}
    data = encode(offsets)
    at = data.index(b"\x77\x08")
    assert int.from_bytes(data[at + 2 : at + 6]) == buckets
    assert int.from_bytes(data[at - 4 : at]) == buckets * 3 // 4
    assert decode(data) == offsets


def test_arrays_that_are_referred_to_again_are_followed() -> None:
    """Java writes a repeated object only once; a value may refer to its key."""
    start = f"aced0005{HASH_MAP}{FIELDS}3f4000000000000c77080000001000000001{BYTES}16b"
    assert decode(bytes.fromhex(start + "71007e000378")) == {b"k": b"k"}


def test_a_map_of_a_subclass_is_one_too() -> None:
    linked = "73720017" + b"java.util.LinkedHashMap".hex() + "34c04e5c106cc0fb0200015a000b"
    linked += b"accessOrder".hex() + "78" + HASH_MAP[2:] + FIELDS
    # The fields of the map, its entries, then the subclass's own field.
    body = f"3f4000000000000c77080000001000000001{BYTES}16b7571007e0003000000017678" + "00"
    assert decode(bytes.fromhex("aced0005" + linked + body)) == {b"k": b"v"}


STRING_OBJECT = "740001" + b"s".hex()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            b"offsets=5\n",
            "It is not a serialized Java object: it begins with 6f 66 66 73 rather than",
        ),
        (bytes.fromhex("aced000570"), "Expected HashMap but found null"),
        (
            bytes.fromhex("aced0005" + STRING_OBJECT),
            "Expected HashMap but found class java.lang.String",
        ),
        (bytes.fromhex(f"aced0005{BYTES}178"), "Expected HashMap but found class [B"),
        (
            bytes.fromhex(
                "aced00057372001"
                + "1"
                + b"java.util.TreeMap".hex()
                + "0cc1f63e2d256ae6030000"
                + "7870"
            ),
            "Expected HashMap but found class java.util.TreeMap",
        ),
        (
            bytes.fromhex(
                f"aced0005{HASH_MAP}{FIELDS}3f4000000000000c77080000001000000001{STRING_OBJECT}7078"
            ),
            "Expected byte arrays in the HashMap but found class java.lang.String",
        ),
        (bytes.fromhex("aced000571000000" + "01"), "It is damaged"),
        (bytes.fromhex("aced000571007e0009"), "It ends in the middle, or is damaged."),
        (
            bytes.fromhex("aced0005ff"),
            "It contains something that no offset file does (type code 0xff).",
        ),
    ],
)
def test_anything_else_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(OffsetFileInvalid) as raised:
        decode(data)
    assert str(raised.value).startswith(problem)


def test_a_file_that_was_cut_off_anywhere_is_refused() -> None:
    whole = encode({b"key": b"value", b"other": None})
    for end in range(1, len(whole)):
        with pytest.raises(OffsetFileInvalid):
            decode(whole[:end])


def test_a_file_that_is_missing_or_empty_holds_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == {}
    (tmp_path / "empty").touch()
    assert read(tmp_path / "empty") == {}


def test_the_error_names_file_and_setting(tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_bytes(b"text")
    with pytest.raises(OffsetFileInvalid) as raised:
        FileLog(file, 1.0, lambda entries: None)
    assert str(raised.value).startswith(
        f"The offset file '{file}' ('offset.storage.file.filename') cannot be used. It is not "
    )
    assert raised.value.exit_code == 2
    assert file.read_bytes() == b"text"
    with pytest.raises(OffsetFileInvalid, match="does not exist"):
        FileLog(tmp_path / "no" / "offsets", 1.0, lambda entries: None)


def test_a_write_replaces_the_file_at_once_and_keeps_links_and_modes(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    with real.open("rb") as reader:
        write(link, {b"k": b"v"})
        assert reader.read() == b"old"  # an open reader still reads the old file
    assert link.is_symlink()
    assert read(real) == {b"k": b"v"}
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_a_log_hands_over_the_file_and_writes_when_told_to_and_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    write(file, {b"a": b"1", b"gone": None})
    seen: list[LogEntry] = []
    log = FileLog(file, 3600.0, seen.extend)
    log.start()
    assert seen == [LogEntry(0, 0, b"a", b"1"), LogEntry(0, 1, b"gone", None)]
    assert log.append(b"b", b"2").result(0) == (0, 2)
    assert seen[2:] == [LogEntry(0, 2, b"b", b"2")]
    assert read(file) == {b"a": b"1", b"gone": None}  # an hour is not over
    log.flush()
    wait_until(lambda: read(file) == {b"a": b"1", b"gone": None, b"b": b"2"}, 5, "the file")
    log.append(b"a", None)
    log.close()
    assert read(file) == {b"a": None, b"gone": None, b"b": b"2"}


def test_a_log_writes_by_itself_every_interval(tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    log = FileLog(file, 0.01, lambda entries: None)
    log.start()
    try:
        for value in (b"1", b"2"):
            log.append(b"k", value)
            wait_until(lambda value=value: read(file) == {b"k": value}, 5, "the file")  # type: ignore[misc]
    finally:
        log.close()


def test_a_write_that_fails_is_said_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = FileLog(folder / "offsets", 3600.0, lambda entries: None)
    log.start()
    log.append(b"k", b"v")
    folder.rmdir()
    log.flush()
    wait_until(lambda: "Failed to write the offset file" in caplog.text, 5, "the error")
    folder.mkdir()
    log.close()
    assert read(folder / "offsets") == {b"k": b"v"}


def test_a_lifetime_ends_once_at_the_last_time_given() -> None:
    due: list[Held] = []
    reloads = Reloads(due.append)
    try:
        reloads.hold("forgotten", 0x7FFFFFFF)
        reloads.hold("later", 0x7FFFFFFF)
        reloads.hold("never", 20)
        reloads.hold("never", None)
        reloads.hold(TaskId("soon", 1), 30)
        reloads.hold("later", 10)
        wait_until(lambda: len(due) == 2, 5, "two dates")
        assert due == ["later", TaskId("soon", 1)]
    finally:
        reloads.close()
    reloads.hold("later", 0)
    assert len(due) == 2
