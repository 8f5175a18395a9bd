"""Lines of a file as records, and back."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import Offsets, SourceOffset
from penstock.connectors import file as connector
from penstock.connectors.file import (
    FILE_SINK,
    FILE_SOURCE,
    FileReader,
    FileStreamSink,
    FileStreamSource,
    LineWriter,
)
from penstock.data import schema as s
from penstock.data.records import Column, Records, Run
from penstock.errors import PenstockError, StartupFailed, Unsupported

WINDOW = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A place for a file; nothing is there yet."""
    return tmp_path / "lines.txt"


def at(file: Path, position: object) -> Offsets:
    return [SourceOffset({"filename": str(file)}, {"position": position})]  # type: ignore[dict-item]


def position_of(offsets: Offsets) -> int:
    position = offsets[0].offset and offsets[0].offset["position"]
    assert isinstance(position, int)
    return position


def lines_between(reader: FileReader, start: Offsets, end: Offsets) -> list[str]:
    batches = reader.read(start, end)
    return [line for batch in batches for line in reader.records(batch).values.values]


def read_all(
    reader: FileReader, start: Offsets = (), window: Callable[[], int] = lambda: WINDOW
) -> tuple[list[str], Offsets]:
    """Every line there is now, window by window, and where the last one ended."""
    lines: list[str] = []
    while True:
        end = reader.latest(start, window())
        if end == start:
            return lines, start
        assert not start or position_of(end) > position_of(start), "a batch that reads nothing"
        lines += lines_between(reader, start, end)
        start = end


ENDS = [
    (b"", []),
    (b"\n", [""]),
    (b"a\nb\n", ["a", "b"]),
    (b"a\rb\r\nc\n", ["a", "b", "c"]),
    (b"\r\n\r\n", ["", ""]),
    (b"\n\r\n", ["", ""]),
    (b"a\r\rb\n", ["a", "", "b"]),
    (b"a\nrest", ["a"]),
    (b"a\nrest\r", ["a"]),  # an LF may still follow
    (b"rest", []),
    (b"\r", []),
    ("zö\n日本\r\n🙂\n".encode(), ["zö", "日本", "🙂"]),
    ("a\u2028b\u0085c\x0bd\x0ce\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce"]),  # no line ends in Java
    (b"\xff\xfeok\n", ["\ufffd\ufffdok"]),
]


@pytest.mark.parametrize(("content", "lines"), ENDS)
def test_lines_end_with_lf_cr_or_both_and_an_unfinished_one_waits(
    file: Path, content: bytes, lines: list[str]
) -> None:
    file.write_bytes(content)
    assert read_all(FileReader(str(file), "t"))[0] == lines


@pytest.mark.parametrize(
    ("more", "lines"), [(b"\nb\n", ["a", "b"]), (b"b\n", ["a", "b"]), (b"\r\n", ["a", ""])]
)
def test_a_cr_at_the_end_waits_for_what_follows(file: Path, more: bytes, lines: list[str]) -> None:
    reader = FileReader(str(file), "t")
    file.write_bytes(b"a\r")
    assert read_all(reader) == ([], ())
    with file.open("ab") as grown:
        grown.write(more)
    assert read_all(reader)[0] == lines


def test_a_growing_file_is_followed(file: Path) -> None:
    reader = FileReader(str(file), "t")
    file.write_text("one\ntw")
    lines, reached = read_all(reader)
    assert (lines, reached) == (["one"], at(file, 4))
    assert read_all(reader, reached) == ([], reached)
    with file.open("a") as grown:
        grown.write("o\nthree\n")
    assert read_all(reader, reached) == (["two", "three"], at(file, 14))


def test_positions_count_bytes(file: Path) -> None:
    file.write_text("zö€🙂\nnext\n")
    reader = FileReader(str(file), "t")
    first = reader.latest((), 3)
    assert first == at(file, 11)
    assert read_all(reader, first)[0] == ["next"]


def test_a_line_longer_than_the_window_is_one_batch(file: Path) -> None:
    long = "x" * 300_000
    file.write_text(f"a\n{long}\nb\n")
    reader = FileReader(str(file), "t")
    ends, start = [], at(file, 0)
    while (end := reader.latest(start, 10)) != start:
        ends.append(position_of(end))
        start = end
    assert ends == [2, 300_003, 300_005]
    assert lines_between(reader, at(file, 2), at(file, 300_003)) == [long]


def test_a_long_line_without_an_end_is_not_searched_again_from_its_start(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(b"x" * 500_000)
    reader = FileReader(str(file), "t")
    assert reader.latest((), 10) == ()
    read: list[int] = []
    real = os.pread

    def counted(handle: int, count: int, offset: int) -> bytes:
        data = real(handle, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    assert reader.latest((), 10) == ()
    assert sum(read) <= 1
    with file.open("ab") as grown:
        grown.write(b"\n")
    assert reader.latest((), 10) == at(file, 500_001)
    assert sum(read) <= 10


def test_a_file_that_is_not_there_is_waited_for(file: Path) -> None:
    reader = FileReader(str(file), "t")
    assert reader.latest((), WINDOW) == ()
    assert reader.latest(at(file, 7), WINDOW) == at(file, 7)
    file.write_text("here\n")
    assert read_all(reader)[0] == ["here"]


def test_a_file_that_shrank_between_planning_and_reading_is_an_error(file: Path) -> None:
    file.write_text("one\ntwo\n")
    reader = FileReader(str(file), "t")
    end = reader.latest((), WINDOW)
    file.write_text("one\n")
    with pytest.raises(PenstockError, match="ended at byte 4 although it reached 8 before"):
        lines_between(reader, (), end)


def test_a_stored_position_beyond_the_end_waits_for_the_file_to_grow(file: Path) -> None:
    file.write_text("one\n")
    reader = FileReader(str(file), "t")
    assert reader.latest(at(file, 100), WINDOW) == at(file, 100)


@pytest.mark.parametrize("position", ["7", 7.5, None, True])
def test_a_position_that_is_no_integer_is_an_error(file: Path, position: object) -> None:
    file.write_text("one\n")
    with pytest.raises(PenstockError, match="Offset position is the incorrect type"):
        FileReader(str(file), "t").latest(at(file, position), WINDOW)


def test_offsets_of_another_file_are_not_ours(file: Path) -> None:
    file.write_text("one\n")
    other = at(file.with_name("other.txt"), 3)
    assert FileReader(str(file), "t").latest(other, WINDOW) == at(file, 4)


def test_records_have_a_topic_a_required_string_and_nothing_else(file: Path) -> None:
    file.write_text("one\n\n")
    reader = FileReader(str(file), "t")
    [batch] = reader.read((), reader.latest((), WINDOW))
    assert reader.records(batch) == Records(
        topics=["t", "t"],
        partitions=[None, None],
        timestamps=[None, None],
        keys=Column([None, None], [Run(2, None)]),
        values=Column(["one", ""], [Run(2, s.STRING)]),
    )


CONTENTS = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", "ö".encode(), b"\xff", b"long word"]), max_size=30
).map(b"".join)


def split_at_once(content: bytes) -> list[str]:
    """The lines of content that nothing will be added to before they are read."""
    whole = content[:-1] if content.endswith(b"\r") else content
    *lines, _ = re.split(rb"\r\n|\n|\r", whole)
    return [line.decode("utf-8", "replace") for line in lines]


@given(content=CONTENTS, data=st.data())
def test_reading_in_any_windows_while_the_file_grows_is_splitting_at_once(
    content: bytes, data: st.DataObject
) -> None:
    sizes = st.integers(1, 8)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(connector, "_BLOCK", data.draw(sizes, "block"))
        patch.setattr(connector, "_SCAN", data.draw(sizes, "scan"))
        file = Path(folder) / "grows.txt"
        reader = FileReader(str(file), "t")
        lines: list[str] = []
        reached: Offsets = ()
        written = 0
        while written < len(content):
            more = data.draw(st.integers(1, len(content) - written), "bytes appended")
            with file.open("ab") as grown:
                grown.write(content[written : written + more])
            written += more
            if data.draw(st.booleans(), "task restarted"):
                reader = FileReader(str(file), "t")
            found, reached = read_all(reader, reached, lambda: data.draw(sizes, "window"))
            lines += found
            assert lines == split_at_once(content[:written])


# ── the sink ─────────────────────────────────────────────────────────────────────────────────────


def records(values: list[object], schema: s.Schema | None = s.STRING) -> Records:
    rows = len(values)
    return Records(
        topics=["t"] * rows,
        partitions=[0] * rows,
        timestamps=[None] * rows,
        keys=Column.of([None] * rows, None),
        values=Column.of(values, schema),  # type: ignore[arg-type]
        offsets=list(range(rows)),
    )


def test_each_record_is_appended_as_one_line(file: Path) -> None:
    file.write_text("kept\n")
    writer = LineWriter(str(file))
    writer.write(records(["zö", "", None]), {})
    writer.write(records([{"a": 1}, 5], None), {})
    writer.write(records([]), {})
    writer.close()
    assert file.read_text() == "kept\nzö\n\nnull\n{a=1}\n5\n"


def test_writers_share_a_file(file: Path) -> None:
    one, two = LineWriter(str(file)), LineWriter(str(file))
    for writer, text in [(one, "1"), (two, "2"), (one, "3")]:
        writer.write(records([text]), {})
    one.close()
    two.close()
    assert file.read_text() == "1\n2\n3\n"


def test_a_full_disk_leaves_nothing_half_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LineWriter(str(file))
    writer.write(records(["before"]), {})
    real = os.write
    room = [5]

    def full(handle: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(handle, data[: room[0]])
        room[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(PenstockError) as failed:
            writer.write(records(["a long line", "and another"]), {})
    assert str(failed.value) == (
        f"Cannot append 24 bytes to '{file}' (setting 'file'): No space left on device. Nothing of "
        "this batch was written; make room and restart the task."
    )
    assert file.read_text() == "before\n"
    writer.write(records(["after"]), {})
    writer.close()
    assert file.read_text() == "before\nafter\n"


def test_a_write_that_takes_several_calls_is_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:3]))
    writer = LineWriter(str(file))
    writer.write(records(["a long line", "and another"]), {})
    writer.close()
    assert file.read_text() == "a long line\nand another\n"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupFailed) as refused:
        LineWriter(str(tmp_path))
    assert str(refused.value) == (
        f"Cannot write the file '{tmp_path}' that 'file' names: Is a directory."
    )


# ── the connectors ───────────────────────────────────────────────────────────────────────────────


def test_a_source_has_one_task_whatever_it_may_have() -> None:
    config = FILE_SOURCE.parse({"file": "/in", "topic": "t"})
    assert FileStreamSource().plan_tasks(config, 5) == [{"file": "/in", "topic": "t"}]


def test_a_sink_has_as_many_tasks_as_it_may_have() -> None:
    config = FILE_SINK.parse({"file": "/out"})
    assert FileStreamSink().plan_tasks(config, 3) == [{"file": "/out"}] * 3


@pytest.mark.parametrize("props", [{}, {"file": ""}])
def test_standard_streams_are_not_offered(props: dict[str, str]) -> None:
    with pytest.raises(Unsupported, match="Set 'file'"):
        FileStreamSource().open(FILE_SOURCE.parse({**props, "topic": "t"}))
    with pytest.raises(Unsupported, match="Set 'file'"):
        FileStreamSink().open(FILE_SINK.parse(props))
