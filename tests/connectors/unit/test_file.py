"""Lines of a file as records, and back."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import (
    Column,
    Offsets,
    PenstockError,
    Records,
    Run,
    SourceOffset,
    StartupFailed,
    Unsupported,
)
from penstock.api import schema as s
from penstock.connectors import file as connector
from penstock.connectors.file import (
    FILE_SINK,
    FILE_SOURCE,
    FileReader,
    FileStreamSink,
    FileStreamSource,
    LineWriter,
)
from penstock.testing.contexts import SinkContextStub, SourceContextStub

WINDOW = 1 << 20
LONG_MS = 60_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a file yet to be written."""
    return tmp_path / "lines.txt"


def at(file: Path, position: object) -> Offsets:
    return [SourceOffset({"filename": str(file)}, {"position": position})]  # type: ignore[dict-item]


def opened(file: Path, start: Offsets = (), context: SourceContextStub | None = None) -> FileReader:
    return FileReader(str(file), "t", context or SourceContextStub(start))


def read_all(
    reader: FileReader, window: Callable[[], int] = lambda: WINDOW
) -> tuple[list[str], Offsets]:
    """All lines so far, poll by poll, and where the last one ended; () if there is none."""
    lines: list[str] = []
    reached: Offsets = ()
    while (polled := reader.poll(window(), 0)) is not None:
        assert len(polled.records), "a poll that found nothing"
        lines += polled.records.values.values
        reached = polled.offsets
    return lines, reached


def append(file: Path, content: bytes) -> None:
    with file.open("ab") as grown:
        grown.write(content)


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of the file brought."""
    read: list[int] = []
    real = os.pread

    def counted(handle: int, count: int, offset: int) -> bytes:
        data = real(handle, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    return read


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
    assert read_all(opened(file))[0] == lines


@pytest.mark.parametrize(
    ("more", "lines"), [(b"\nb\n", ["a", "b"]), (b"b\n", ["a", "b"]), (b"\r\n", ["a", ""])]
)
def test_a_cr_at_the_end_waits_for_what_follows(file: Path, more: bytes, lines: list[str]) -> None:
    reader = opened(file)
    file.write_bytes(b"a\r")
    assert read_all(reader) == ([], ())
    append(file, more)
    assert read_all(reader)[0] == lines


def test_a_growing_file_is_followed(file: Path) -> None:
    reader = opened(file)
    file.write_text("one\ntw")
    assert read_all(reader) == (["one"], at(file, 4))
    assert read_all(reader) == ([], ())
    append(file, b"o\nthree\n")
    assert read_all(reader) == (["two", "three"], at(file, 14))


def test_a_line_may_come_in_many_pieces(file: Path) -> None:
    reader = opened(file)
    for piece in (b"z", b"\xc3", b"\xb6", b" and", b" more", b"\r"):
        append(file, piece)
        assert read_all(reader) == ([], ())
    append(file, b"\nnext")
    assert read_all(reader) == (["zö and more"], at(file, 14))


def test_a_restart_continues_after_the_stored_position(file: Path) -> None:
    file.write_text("one\ntwo\nthr")
    assert read_all(opened(file, at(file, 4))) == (["two"], at(file, 8))
    append(file, b"ee\n")
    assert read_all(opened(file, at(file, 8))) == (["three"], at(file, 14))


def test_positions_count_bytes(file: Path) -> None:
    file.write_text("zö€🙂\nnext\n")
    first = opened(file).poll(3, 0)
    assert first is not None
    assert first.offsets == at(file, 11)
    assert read_all(opened(file, first.offsets))[0] == ["next"]


def test_a_line_longer_than_the_window_is_one_poll(file: Path) -> None:
    long = "x" * 300_000
    file.write_text(f"a\n{long}\nb\n")
    reader = opened(file)
    polls = [reader.poll(10, 0) for _ in range(4)]
    assert [polled and polled.records.values.values for polled in polls] == [
        ["a"],
        [long],
        ["b"],
        None,
    ]
    assert polls[1] is not None
    assert polls[1].offsets == at(file, 300_003)


def test_a_poll_is_about_as_large_as_was_asked_for_and_nothing_is_read_twice(
    file: Path, bytes_read: list[int]
) -> None:
    file.write_bytes(b"0123456789abcde\n" * 100_000)
    reader = opened(file)
    sizes = []
    while (polled := reader.poll(WINDOW, 0)) is not None:
        sizes.append(len(polled.records) * 16)
    assert sum(sizes) == sum(bytes_read) == 1_600_000
    assert WINDOW / 2 < sizes[0] <= max(sizes) <= WINDOW


def test_a_long_line_without_an_end_is_neither_read_nor_searched_again(
    file: Path, bytes_read: list[int]
) -> None:
    file.write_bytes(b"x" * 500_000)
    reader = opened(file)
    assert reader.poll(10, 0) is None
    assert sum(bytes_read) == 500_000
    assert reader._searched >= 499_999
    append(file, b"yz")
    assert reader.poll(10, 0) is None
    append(file, b"\n")
    polled = reader.poll(10, 0)
    assert polled is not None
    assert polled.offsets == at(file, 500_003)
    assert polled.records.values.values == ["x" * 500_000 + "yz"]
    assert sum(bytes_read) == 500_003


def test_a_missing_file_is_waited_for(file: Path) -> None:
    reader, later = opened(file), opened(file, at(file, 3))
    assert read_all(reader) == ([], ())
    assert read_all(later) == ([], ())
    file.write_text("is\nhere\n")
    assert read_all(reader)[0] == ["is", "here"]
    assert read_all(later)[0] == ["here"]


def test_a_stored_position_beyond_the_end_waits_for_the_file_to_grow(file: Path) -> None:
    file.write_text("one\n")
    reader = opened(file, at(file, 8))
    assert read_all(reader) == ([], ())
    append(file, b"two\nthree\n")
    assert read_all(reader) == (["three"], at(file, 14))


def test_a_truncated_file_is_read_on_from_the_position_reached(file: Path) -> None:
    file.write_text("one\ntwo\n")
    reader = opened(file)
    read_all(reader)
    os.truncate(file, 0)
    assert read_all(reader) == ([], ())
    append(file, b"111\n222\n333\n")
    assert read_all(reader) == (["333"], at(file, 12))


def test_a_file_that_takes_the_name_is_read_on_from_the_position_reached(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "_SAME_FILE_S", 0)
    file.write_text("one\ntwo")
    reader = opened(file)
    assert read_all(reader) == (["one"], at(file, 4))
    another = file.with_name("another.txt")
    another.write_text("new\nTWO\nthree\n")
    another.rename(file)
    assert read_all(reader) == (["TWO", "three"], at(file, 14))
    file.unlink()
    assert read_all(reader) == ([], ())
    file.write_text("new\nTWO\nthree\nfour\n")
    assert read_all(reader) == (["four"], at(file, 19))
    reader.close()


def test_a_file_that_takes_the_name_is_noticed_soon(file: Path) -> None:
    file.write_text("one\n")
    reader = opened(file)
    read_all(reader)
    another = file.with_name("another.txt")
    another.write_text("new\ntwo\n")
    another.rename(file)
    polled = reader.poll(WINDOW, LONG_MS)
    assert polled is not None
    assert polled.records.values.values == ["two"]


def test_a_file_is_looked_up_by_its_name_only_now_and_then(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "_SAME_FILE_S", 3600)
    file.write_text("one\n")
    reader = opened(file)
    monkeypatch.setattr(os, "stat", None)
    assert read_all(reader)[0] == ["one"]
    assert read_all(reader)[0] == []


@pytest.mark.parametrize("position", ["7", 7.5, None, True])
def test_a_position_that_is_no_integer_is_an_error(file: Path, position: object) -> None:
    with pytest.raises(PenstockError, match="Offset position is the incorrect type"):
        opened(file, at(file, position))


def test_offsets_of_another_file_are_not_ours(file: Path) -> None:
    file.write_text("one\n")
    other = at(file.with_name("other.txt"), 3)
    assert read_all(opened(file, other)) == (["one"], at(file, 4))


def test_records_have_a_topic_a_required_string_and_nothing_else(file: Path) -> None:
    file.write_text("one\n\n")
    polled = opened(file).poll(WINDOW, 0)
    assert polled is not None
    assert polled.records == Records(
        topics=["t", "t"],
        partitions=[None, None],
        timestamps=[None, None],
        keys=Column([None, None], [Run(2, None)]),
        values=Column(["one", ""], [Run(2, s.STRING)]),
    )


class Waits(SourceContextStub):
    """Counts the waits instead of waiting; `then` is called in each."""

    def __init__(self, then: Callable[[int], object] = lambda count: None) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.then = then

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.then(len(self.waits))
        return not self.is_running


def test_a_poll_that_may_not_wait_does_not(file: Path) -> None:
    context = Waits()
    reader = opened(file, context=context)
    assert reader.poll(WINDOW, 0) is None
    file.write_text("unfinished")
    assert reader.poll(WINDOW, 0) is None
    append(file, b"\n")
    assert reader.poll(WINDOW, 0) is not None
    assert context.waits == []
    assert reader.idle_ms == 0


def test_a_poll_that_may_wait_returns_with_the_first_line(file: Path) -> None:
    context = Waits(lambda count: file.write_text("here\n") if count == 3 else None)
    reader = opened(file, context=context)
    polled = reader.poll(WINDOW, LONG_MS)
    assert polled is not None
    assert polled.records.values.values == ["here"]
    assert context.waits == [0.005] * 3


def test_a_poll_waits_no_longer_than_it_may(file: Path) -> None:
    assert opened(file).poll(WINDOW, 30) is None


def test_a_poll_stops_waiting_when_the_task_stops(file: Path) -> None:
    context = SourceContextStub()
    reader = opened(file, context=context)
    stopping = threading.Timer(0.01, context.stop)
    stopping.start()
    assert reader.poll(WINDOW, LONG_MS) is None
    stopping.join()


@pytest.mark.parametrize(
    ("quiet_s", "pause_s"), [(0, 0.005), (0.015, 0.005), (0.06, 0.02), (0.15, 0.05), (3600, 0.05)]
)
def test_a_file_is_looked_at_less_often_the_longer_it_is_quiet(
    quiet_s: float, pause_s: float
) -> None:
    assert FileReader._pause(quiet_s) == pytest.approx(pause_s)


def test_closing_closes_the_file(file: Path) -> None:
    file.write_text("one\n")
    before = set(os.listdir("/proc/self/fd"))
    reader = opened(file)
    reader.poll(WINDOW, 0)
    reader.close()
    assert set(os.listdir("/proc/self/fd")) == before
    opened(file).close()  # never polled


CONTENTS = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", "ö".encode(), b"\xff", b"long word"]), max_size=30
).map(b"".join)


def split_at_once(content: bytes) -> list[str]:
    """The lines of content that does not grow before it is read."""
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
        file = Path(folder) / "grows.txt"
        reader = opened(file)
        lines: list[str] = []
        reached: Offsets = ()
        written = 0
        while written < len(content):
            more = data.draw(st.integers(1, len(content) - written), "bytes appended")
            append(file, content[written : written + more])
            written += more
            if data.draw(st.booleans(), "task restarted"):
                reader.close()
                reader = opened(file, reached)
            found, end = read_all(reader, lambda: data.draw(sizes, "window"))
            lines += found
            reached = end or reached
            assert lines == split_at_once(content[:written])
        reader.close()


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
        f"Cannot append 24 bytes to '{file}' (setting 'file'): No space left on device. None of "
        "this batch was written; free disk space and restart the task."
    )
    assert file.read_text() == "before\n"
    writer.write(records(["after"]), {})
    writer.close()
    assert file.read_text() == "before\nafter\n"


def test_a_line_that_was_cut_off_by_a_kill_stays_alone(file: Path) -> None:
    file.write_text("before\na line that was cut o")
    writer = LineWriter(str(file))
    writer.write(records(["after"]), {})
    writer.write(records(["the next"]), {})
    writer.close()
    assert file.read_text() == "before\na line that was cut o\nafter\nthe next\n"


def test_a_batch_that_cannot_be_undone_is_named_and_the_next_line_is_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LineWriter(str(file))
    writer.write(records(["before"]), {})
    real = os.write

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write(handle: int, data: memoryview) -> int:
        monkeypatch.setattr(os, "write", refuse)
        return real(handle, data[:5])

    with monkeypatch.context():
        monkeypatch.setattr(os, "write", write)
        monkeypatch.setattr(os, "ftruncate", refuse)
        with pytest.raises(PenstockError) as failed:
            writer.write(records(["a long line"]), {})
    assert str(failed.value) == (
        f"Cannot append 12 bytes to '{file}' (setting 'file'): Input/output error. 5 bytes of this "
        "batch were written and cannot be removed; it is written again when the task is restarted."
    )
    monkeypatch.undo()
    writer.write(records(["a long line"]), {})
    writer.close()
    assert file.read_text() == "before\na lon\na long line\n"


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
    assert str(refused.value) == f"Cannot write '{tmp_path}' (setting 'file'): Is a directory."


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    config = FileStreamSource.plugin.config.parse({"file": str(tmp_path), "topic": "t"})
    reader = FileStreamSource().open(config, SourceContextStub())
    with pytest.raises(PenstockError) as refused:
        reader.poll(1 << 20, 10)
    assert str(refused.value) == f"Cannot read '{tmp_path}' (setting 'file'): Is a directory."


@pytest.mark.parametrize("kind", [FileStreamSource, FileStreamSink])
@pytest.mark.parametrize("file", [None, ""])
def test_a_connector_without_a_file_is_refused_when_it_is_validated(
    kind: type[FileStreamSource | FileStreamSink], file: str | None
) -> None:
    given = {"topic": "t", **({} if file is None else {"file": file})}
    [finding] = kind().validate_live(kind.plugin.config.parse(given))
    assert finding.setting == "file"
    assert "Set 'file'." in (finding.error or "")
    assert list(kind().validate_live(kind.plugin.config.parse({**given, "file": "/new"}))) == []


def test_a_source_has_one_task_whatever_it_may_have() -> None:
    config = FILE_SOURCE.parse({"file": "/in", "topic": "t"})
    assert FileStreamSource().plan_tasks(config, 5) == [{"file": "/in", "topic": "t"}]


def test_a_sink_has_as_many_tasks_as_it_may_have() -> None:
    config = FILE_SINK.parse({"file": "/out"})
    assert FileStreamSink().plan_tasks(config, 3) == [{"file": "/out"}] * 3


@pytest.mark.parametrize("props", [{}, {"file": ""}])
def test_standard_streams_are_not_offered(props: dict[str, str]) -> None:
    with pytest.raises(Unsupported, match="Set 'file'"):
        FileStreamSource().open(FILE_SOURCE.parse({**props, "topic": "t"}), SourceContextStub())
    with pytest.raises(Unsupported, match="Set 'file'"):
        FileStreamSink().open(FILE_SINK.parse(props), SinkContextStub())
