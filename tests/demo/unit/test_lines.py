import hashlib
import tracemalloc
from collections.abc import Iterator

import pytest

from penstock.connectors.file import FileReader
from penstock.demo.lines import (
    Difference,
    DifferenceKind,
    LineTooLong,
    digest,
    first_difference,
    lines_of,
    pieces,
)
from penstock.testing.contexts import SourceContextStub

# raw bytes, the lines they hold, bytes after the last line's end
CASES: dict[str, tuple[bytes, list[str], int]] = {
    "nothing": (b"", [], 0),
    "LF": (b"a\nb\n", ["a", "b"], 0),
    "CRLF": (b"a\r\nb\r\n", ["a", "b"], 0),
    "CR": (b"a\rb\r\rc\n", ["a", "b", "", "c"], 0),
    "CR CR LF": (b"a\r\r\nb\n", ["a", "", "b"], 0),
    "LF CR": (b"a\n\rb\n", ["a", "", "b"], 0),
    "only ends": (b"\n\r\n\r\n\n", ["", "", "", ""], 0),
    "a CR at the end, which an LF may follow": (b"a\nb\r", ["a"], 2),
    "no end at all": (b"abc", [], 3),
    "no last end": (b"a\nbc", ["a"], 2),
    "several bytes a character": ("ü\n水\n👩🏽‍🔧\r\n".encode(), ["ü", "水", "👩🏽‍🔧"], 0),
    "separators that are not ends": (
        "a\u2028b\u0085c\x0bd\x0ce\x1ef\n".encode(),
        ["a\u2028b\u0085c\x0bd\x0ce\x1ef"],
        0,
    ),
    "invalid bytes": (b"a\xffb\xfe\xfe\n\xc3\n", ["a\ufffdb\ufffd\ufffd", "\ufffd"], 0),
    "a character cut by a line's end": (b"\xe6\xb0\n\xb4\n", ["\ufffd", "\ufffd"], 0),
    "a character cut by a CR": (b"\xf0\x9f\x92\r\xa7\n", ["\ufffd", "\ufffd"], 0),
    "a surrogate": (b"\xed\xa0\x80\n", ["\ufffd\ufffd\ufffd"], 0),
    "a character cut by the end of the file": (b"a\n\xe6\xb0", ["a"], 2),
    "a zero byte and a byte order mark": (b"\xef\xbb\xbf\x00\n", ["\ufeff\x00"], 0),
}
cases = pytest.mark.parametrize(("raw", "lines", "tail"), CASES.values(), ids=CASES)


def cut(raw: bytes, size: int) -> list[bytes]:
    return [raw[at : at + size] for at in range(0, len(raw), size)]


@cases
def test_lines_are_the_same_however_the_stream_is_cut(
    raw: bytes, lines: list[str], tail: int
) -> None:
    for size in range(1, len(raw) + 2):
        assert [line.decode() for line in lines_of(cut(raw, size))] == lines


@cases
def test_a_digest_is_the_same_however_the_stream_is_cut(
    raw: bytes, lines: list[str], tail: int
) -> None:
    normal = "".join(f"{line}\n" for line in lines).encode()
    for size in range(1, len(raw) + 2):
        found = digest(cut(raw, size))
        assert (found.lines, found.size, found.tail) == (len(lines), len(raw) - tail, tail)
        assert found.sha256 == hashlib.sha256(raw[: len(raw) - tail]).hexdigest()
        assert found.normal_size == len(normal)
        assert found.normal_sha256 == hashlib.sha256(normal).hexdigest()
        assert found.plain == (raw[: len(raw) - tail] == normal)


@cases
def test_lines_are_those_that_the_file_source_sends(
    raw: bytes, lines: list[str], tail: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("source") / "file"
    file.write_bytes(raw)
    polled = FileReader(str(file), "topic", SourceContextStub()).poll(1_000_000, 0)
    assert (polled.records.values.values if polled else []) == lines


def test_empty_chunks_change_nothing() -> None:
    assert digest([b"", b"a\r", b"", b"\nb", b"", b"\n"]) == digest([b"a\r\nb\n"])


def test_a_piece_ends_with_a_line_or_holds_no_end() -> None:
    normal = [normal for _, normal in pieces([b"ab\ncd\r", b"\nef", b"gh", b"\n"])]
    assert normal == [b"ab\n", b"cd", b"\n", b"ef", b"gh", b"\n"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("raw", "number", "length"),
    [
        (b"12345\n1234\n123456\n1\n", 3, 6),
        (b"123456\n", 1, 6),
        (b"1\n\n\n1234567\r\n", 4, 7),
        ("123\n€€\n".encode(), 2, 6),
        (b"123\n\xff\xff\n", 2, 6),  # two bytes, but six once they are read
    ],
)
def test_a_line_over_the_limit_is_named(raw: bytes, number: int, length: int, size: int) -> None:
    with pytest.raises(LineTooLong) as raised:
        digest(cut(raw, size), name="f.txt", limit=5)
    assert (raised.value.number, raised.value.size) == (number, length)
    assert f"Line {number} of f.txt has {length} bytes" in str(raised.value)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_up_to_the_limit_pass_and_a_last_one_without_an_end_is_not_sent(size: int) -> None:
    assert digest(cut(b"12345\n\n1\n12345\r\n123456789", size), limit=5).lines == 4


def test_a_big_stream_takes_little_memory() -> None:
    def chunks() -> Iterator[bytes]:
        for number in range(200):
            yield f"{number} ü\r\n".encode() * 10_000
        yield from [b"x" * 100_000] * 200  # and a very long last line

    tracemalloc.start()
    found = digest(chunks(), limit=1_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.lines == 2_000_000
    assert found.tail == 20_000_000
    assert most < 2_000_000


TEN = [f"line {number}".encode() for number in range(1, 11)]


def test_the_same_lines_do_not_differ() -> None:
    assert first_difference(TEN, list(TEN)) is None
    assert first_difference([], []) is None


@pytest.mark.parametrize(
    ("found", "kind", "line", "count"),
    [
        ([*TEN[:3], *TEN[4:]], DifferenceKind.LOST, 4, 1),
        (TEN[2:], DifferenceKind.LOST, 1, 2),
        (TEN[:7], DifferenceKind.LOST, 8, 3),
        ([], DifferenceKind.LOST, 1, 10),
        ([*TEN[:4], TEN[3], *TEN[4:]], DifferenceKind.DOUBLED, 5, 1),
        ([*TEN[:6], *TEN[2:]], DifferenceKind.DOUBLED, 7, 4),
        ([*TEN, *TEN[8:]], DifferenceKind.DOUBLED, 11, 2),
        ([*TEN, b"more"], DifferenceKind.ADDED, 11, 1),
        ([*TEN[:5], b"other", *TEN[5:]], DifferenceKind.ADDED, 6, 1),
        ([*TEN[:2], TEN[3], TEN[2], *TEN[4:]], DifferenceKind.SWAPPED, 3, 2),
        ([*TEN[:8], TEN[9], TEN[8]], DifferenceKind.SWAPPED, 9, 2),
        ([*TEN[:5], b"other", *TEN[6:]], DifferenceKind.CHANGED, 6, 1),
        ([*TEN[:9], b"line"], DifferenceKind.CHANGED, 10, 1),
    ],
)
def test_the_first_difference_is_found_and_named(
    found: list[bytes], kind: DifferenceKind, line: int, count: int
) -> None:
    difference = first_difference(TEN, found)
    assert difference is not None
    assert (difference.kind, difference.line, difference.count) == (kind, line, count)
    assert f"{line}" in str(difference)


def test_a_lost_empty_line_among_others_is_found() -> None:
    difference = first_difference([b"a", b"", b"", b"b"], [b"a", b"", b"b"])
    assert difference == Difference(DifferenceKind.LOST, 3, 1, "", "b")


def test_a_difference_shows_the_start_of_long_lines() -> None:
    difference = first_difference(["水".encode() * 100_000], [b"x"])
    assert difference is not None
    assert len(str(difference)) < 200


def test_losses_larger_than_the_window_are_counted_at_the_end() -> None:
    many = [b"%d" % number for number in range(50_000)]
    difference = first_difference(many, many[:100])
    assert difference is not None
    assert (difference.kind, difference.count) == (DifferenceKind.LOST, 49_900)
