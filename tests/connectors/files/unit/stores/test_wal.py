"""The write-ahead log of Confluent's HDFS connector."""

from __future__ import annotations

import pytest

from penstock.connectors.files.stores.wal import NotALog, commits

MARK = bytes(range(16))
HEAD = b"WAL\x00" + MARK


def text(value: str) -> bytes:
    """As Hadoop's Text.writeString writes it."""
    data = value.encode()
    size = len(data)
    if size <= 127:
        return bytes([size]) + data
    count = (size.bit_length() + 7) // 8
    return bytes([256 - 112 - count]) + size.to_bytes(count) + data


def entry(first: str, second: str = "") -> bytes:
    key = text(first)
    body = key + text(second)
    return len(body).to_bytes(4) + len(key).to_bytes(4) + body


SYNC = b"\xff" * 4 + MARK
LONG = "hdfs://host:8020/topics/+tmp/" + "ü" * 200
ONE = entry("BEGIN") + entry("/t/1", "/a+0+0+9") + entry("END")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (HEAD, []),
        (HEAD + ONE, [[("/t/1", "/a+0+0+9")]]),
        (HEAD + SYNC + ONE + SYNC + ONE, [[("/t/1", "/a+0+0+9")]] * 2),
        (HEAD + entry("BEGIN") + entry("END"), []),
        (HEAD + entry("BEGIN") + entry("/t/1", "/a"), []),
        (HEAD + ONE[:-3], []),
        (HEAD + ONE + SYNC[:7], [[("/t/1", "/a+0+0+9")]]),
        (HEAD + entry("BEGIN") + entry("/t/0", "/x") + ONE, [[("/t/1", "/a+0+0+9")]]),
        (
            HEAD + entry("BEGIN") + entry(LONG, "/b") + entry("/t/2", LONG) + entry("END"),
            [[(LONG, "/b"), ("/t/2", LONG)]],
        ),
    ],
)
def test_complete_commits_are_found(data: bytes, expected: list[list[tuple[str, str]]]) -> None:
    assert commits(data) == expected


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SEQ\x06" + MARK, "begins with"),
        (HEAD + b"\xff" * 4 + b"x" * 16, "no entry begins"),
        (HEAD + b"\xff\xff\xff\xfe", "size -2"),
        (HEAD + (8).to_bytes(4) + (4).to_bytes(4) + b"\x7fabcdefg", "a string has the size"),
    ],
)
def test_an_invalid_log_is_reported(data: bytes, why: str) -> None:
    with pytest.raises(NotALog, match=why):
        commits(data)


@pytest.mark.parametrize("cut", range(len(HEAD + ONE)))
def test_a_log_may_be_cut_off_anywhere(cut: int) -> None:
    data = (HEAD + ONE)[:cut]
    if 0 < cut < 4:
        with pytest.raises(NotALog):
            commits(data)
    else:
        assert commits(data) == []
