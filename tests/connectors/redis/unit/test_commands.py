"""Commands, replies, and what errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.keyed.batches import last_ones
from penstock.connectors.redis.client.errors import Answered, Meaning, meaning_of
from penstock.connectors.redis.client.packing import pack, unpack
from penstock.connectors.redis.client.replies import Replies
from penstock.connectors.redis.write.cells import types_table
from penstock.connectors.redis.write.commands import Commands
from penstock.connectors.redis.write.pipeline import Outcome
from penstock.connectors.redis.write.writer import _account, _Left
from tests.places import ROOT

REPLIES = st.recursive(
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=20,
)


def encoded(value: Any) -> bytes:
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"*%d\r\n%b" % (len(value), b"".join(map(encoded, value)))


@given(values=st.lists(REPLIES, min_size=1, max_size=4), size=st.integers(1, 60))
def test_replies_are_read_in_whatever_pieces_they_come(values: list[Any], size: int) -> None:
    data = b"".join(map(encoded, values))
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    replies = Replies(lambda: next(pieces))
    assert [replies.value() for _ in values] == values
    assert not replies.has_more()


def test_errors_are_values() -> None:
    pieces: Iterator[bytes] = iter([b"-ERR no\r\n+OK\r\n"])
    replies = Replies(lambda: next(pieces))
    error = replies.value()
    assert isinstance(error, Answered)
    assert error.text == "ERR no"
    assert replies.value() == b"OK"


@given(words=st.lists(st.binary(max_size=30), min_size=1, max_size=6))
def test_commands_are_packed(words: list[bytes]) -> None:
    assert unpack(pack(*words)) == words


@given(
    sizes=st.lists(st.integers(1, 50), max_size=40),
    records=st.integers(1, 10),
    most=st.integers(1, 200),
)
def test_pipelines_are_bounded(sizes: list[int], records: int, most: int) -> None:
    commands = Commands()
    for row, size in enumerate(sizes):
        commands.add(row, b"k", b"x" * size)
    cuts = commands.cut(range(len(sizes)), records, most)
    assert [number for each in cuts for number in each] == list(range(len(sizes)))
    for each in cuts:
        assert len(each) <= records
        assert len(each) == 1 or sum(sizes[number] for number in each) <= most


def accounted(commands: Commands, outcome: Outcome) -> list[int]:
    """The commands left to send after an outcome."""
    left = _Left(("t", 0, 0, 9, 10), list(range(len(commands))), {})
    before = last_ones(commands.keys) if commands.replaces else {}
    if commands.replaces:
        left.numbers = list(before)
    _account(commands, left, outcome, before)
    return left.numbers


def test_commands_after_a_repeated_one_of_their_key_are_repeated() -> None:
    commands = Commands()
    for row, key in enumerate((b"a", b"b", b"a", b"b", b"a")):
        commands.add(row, key, b"x")
    assert accounted(commands, Outcome(again=[2], refused={4: "no"})) == [2]
    assert accounted(commands, Outcome(again=[0])) == [0, 2, 4]
    assert accounted(commands, Outcome(again=[1, 4])) == [1, 3, 4]
    commands.once = set(range(5))  # list entries: none twice
    assert accounted(commands, Outcome(again=[0, 3])) == [0, 3]


def test_an_earlier_value_is_sent_where_the_last_is_refused() -> None:
    commands = Commands(replaces=True)
    for row, key in enumerate((b"a", b"b", b"a", b"a")):
        commands.add(row, key, b"x")
    assert accounted(commands, Outcome()) == []
    assert accounted(commands, Outcome(refused={3: "no"})) == [2]
    assert accounted(commands, Outcome(refused={1: "no"})) == []


def test_meanings() -> None:
    reported = {
        "OOM command not allowed": Meaning.BUSY,
        "LOADING Redis is loading the dataset in memory": Meaning.BUSY,
        "BUSY Redis is busy running a script": Meaning.BUSY,
        "MISCONF Redis is configured to save RDB snapshots": Meaning.BUSY,
        "ERR max number of clients reached": Meaning.BUSY,
        "READONLY You can't write against a read only replica.": Meaning.DEMOTED,
        "MOVED 1 h:1": Meaning.MOVED,
        "ASK 1 h:1": Meaning.ASK,
        "ERR unknown command 'JSON.SET'": Meaning.FATAL,
        "NOPERM User x has no permissions to run the 'set' command": Meaning.FATAL,
        "NOPERM No permissions to access a key, keys are refused": Meaning.RECORD,
        "ERR value is not an integer": Meaning.RECORD,
    }
    assert {text: meaning_of(text) for text in reported} == reported


def test_the_docs_have_the_table_of_types() -> None:
    docs = ROOT / "docs" / "redis.md"
    assert types_table() in docs.read_text()
