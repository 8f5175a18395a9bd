"""Laws of monitored files: what a source sends of them, however they change."""

from __future__ import annotations

import hashlib
import io

import orjson
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.files.monitor.changes import (
    All,
    Mode,
    Schedule,
    Shrunk,
    Tail,
    look,
    same_time,
    share_of,
    slice_start,
)
from penstock.connectors.files.monitor.known import FileState, Known, by_path, first, known
from penstock.connectors.files.monitor.pieces import line_slices, slices

CONTENTS = st.lists(st.binary(max_size=12), min_size=1, max_size=6)
TIMES = st.integers(0, 1 << 41)
PRECISIONS = st.sampled_from([1, 1000, 60_000, 86_400_000])
KNOWN = st.builds(
    Known,
    st.integers(0, 1 << 40),
    TIMES,
    st.sampled_from(["", "ab12"]),
    TIMES,
    TIMES,
    TIMES,
    st.integers(-1, 1 << 40),
    st.none() | PRECISIONS,
)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sent(
    mode: Mode, before: Known | None, seen: FileState, content: bytes
) -> tuple[bytes | None, str]:
    """The bytes that a reader sends of a file with this content, and the file's hash."""
    step = look(mode, before, seen)
    if step is None:
        return None, before.hash if before else ""
    if isinstance(step, Tail) and sha(content[: step.start]) == step.digest:
        return content[step.start :], sha(content)
    if isinstance(step, All) and step.unless == sha(content):
        return None, sha(content)
    return content, sha(content)


@given(CONTENTS)
def test_an_updated_file_is_sent_whenever_its_content_differs(contents: list[bytes]) -> None:
    before: Known | None = None
    latest: bytes | None = None
    for time, content in enumerate(contents):
        seen = FileState("/f", len(content), time * 1000)
        body, digest = sent(Mode.UPDATE, before, seen, content)
        assert body == (content if content != latest else None)
        before, latest = (before or first(0)).inspected(seen, digest, time), content


@given(CONTENTS)
def test_pieces_of_a_growing_file_add_up_to_the_file(pieces: list[bytes]) -> None:
    before: Known | None = None
    content = got = b""
    for time, piece in enumerate(pieces):
        content += piece
        seen = FileState("/f", len(content), time * 1000)
        body, digest = sent(Mode.TAIL, before, seen, content)
        got += body or b""
        before = (before or first(0)).inspected(seen, digest, time)
    assert got == content


@given(CONTENTS)
def test_nothing_of_a_tailed_file_is_lost_when_it_is_written_again(contents: list[bytes]) -> None:
    before: Known | None = None
    latest = b""
    for time, content in enumerate(contents):
        seen = FileState("/f", len(content), time * 1000)
        body, digest = sent(Mode.TAIL, before, seen, content)
        if before is not None and content.startswith(latest):
            assert (body or b"") == content[len(latest) :]
        else:
            assert (body or b"") == content
        before, latest = (before or first(0)).inspected(seen, digest, time), content


@given(KNOWN, st.sampled_from(Mode), st.sampled_from(Shrunk))
def test_a_file_that_is_as_it_was_is_left_alone(known: Known, mode: Mode, shrunk: Shrunk) -> None:
    done = Known(known.size, known.modified_ms, known.hash, 0, 0, 0, known.size, known.precision_ms)
    seen = FileState("/f", done.size, done.modified_ms, done.precision_ms or 1000)
    assert look(mode, done, seen, shrunk) is None
    assert slice_start(mode, done, seen, shrunk) is None


@given(KNOWN, st.integers(0, 1 << 40), TIMES, PRECISIONS, st.sampled_from(Mode))
def test_slices_begin_within_the_file(
    before: Known, size: int, time: int, precision: int, mode: Mode
) -> None:
    seen = FileState("/f", size, time, precision)
    start = slice_start(mode, before, seen)
    assert start is None or 0 <= start < size
    if start is None and size != before.size:
        assert size in (0, before.sent)


@given(st.binary(min_size=1, max_size=200), st.integers(1, 20), st.data())
def test_slices_are_the_file_wherever_they_are_interrupted(
    content: bytes, size: int, data: st.DataObject
) -> None:
    content = content.replace(b"\xff", b"\n")
    for cut in (slices, line_slices):
        stop = data.draw(st.integers(0, len(content)))
        start, got = 0, b""
        while start < stop:
            pieces = cut(io.BytesIO(content[start:]).read, start, stop, size)
            for _ in range(data.draw(st.integers(1, 4))):
                piece = next(pieces, None)
                if piece is None:
                    break
                assert piece.end == start + len(piece.body)
                start, got = piece.end, got + piece.body
                if cut is slices:
                    assert len(piece.body) <= size
                    assert piece.key_offset == piece.end
                else:
                    is_last = piece.end == stop
                    assert is_last or piece.body.endswith(b"\n")
                    assert len(piece.body) <= size or piece.body.count(b"\n", 0, -1) == 0 or is_last
                    assert piece.key_offset == (piece.end if is_last else 0)
        assert got == content[:stop]


@given(TIMES, PRECISIONS, PRECISIONS)
def test_the_same_time_told_less_exactly_is_the_same(time: int, one: int, other: int) -> None:
    reported = Known(1, time - time % one, "", 0, 0, 0, -1, one)
    assert same_time(reported, FileState("/f", 1, time - time % other, other))


@given(KNOWN, st.text())
def test_a_stored_offset_is_read_as_it_was(before: Known, path: str) -> None:
    offset = before.stored(path)
    assert offset.offset is not None
    again = orjson.loads(orjson.dumps(dict(offset.offset)))
    assert known(again) == before
    assert by_path([offset]) == {path: before}


@given(st.text(), st.integers(1, 9))
def test_a_file_has_one_task(path: str, shares: int) -> None:
    assert 0 <= share_of(path, shares) < shares
    assert share_of(path, shares) == share_of(path, shares)


@given(st.integers(0, 10**7), st.integers(0, 10**9), st.integers(0, 60), st.integers(0, 10**12))
def test_a_server_that_fails_is_asked_later_each_time(
    refresh: int, most: int, failures: int, now: int
) -> None:
    schedule = Schedule(refresh, most)
    pause = 0
    for _ in range(failures):
        schedule = schedule.failed(now)
        assert pause <= schedule.due_ms - now <= max(most, 500)
        pause = schedule.due_ms - now
    assert pause > 0 or not failures
    assert schedule.succeeded(now) == Schedule(refresh, most, now + refresh)
