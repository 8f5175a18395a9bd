import os
import random
import struct
import time
from pathlib import Path

import pytest

from benchmarks import probe
from benchmarks.inputs import WrongOutcome
from benchmarks.probe import SLOW_PAD, Arrivals, Measured, Pace, Probe, Probed, modified
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

SINK = Probed("sink", Path("sink.txt"), sink=True)
SOURCE = Probed("source", Path("source.txt"), sink=False)
TOPICS = Topics("127.0.0.1:1")  # never connected to


def test_every_connector_has_its_records_in_every_slot_of_the_pace() -> None:
    pace = Pace(seconds=3, per_s=2, warm_s=1)
    assert (pace.ahead, pace.total) == (3, 9)
    due = pace.due(5, random.Random(7))
    assert due == sorted(due)
    for connector in range(5):
        moments = [at for at, whose in due if whose == connector]
        assert [int(at * 2) for at in moments] == list(range(pace.total - 1))
    assert due == pace.due(5, random.Random(7))


def test_a_record_belongs_to_one_connector_and_a_slow_one_fills_a_pipe() -> None:
    assert SINK.value(3) != SOURCE.value(3)
    slow = Probed("sink", Path("sink.txt"), sink=True, slow=True)
    assert len(slow.value(3)) > SLOW_PAD


def test_arrivals_count_after_those_ahead_only() -> None:
    arrivals = Arrivals(SOURCE, 4)
    for number in range(4):
        arrivals.sent[number] = 10.0 + number
        assert not arrivals.complete
        arrivals.arrived(SOURCE.value(number), 10.0 + number + number / 1000)
    assert arrivals.complete
    assert arrivals.latencies_ms(2) == pytest.approx([2, 3])


def test_a_record_that_is_not_acknowledged_yet_is_waited_for() -> None:
    arrivals = Arrivals(SINK, 1)
    arrivals.arrived(SINK.value(0), 5.0)
    assert not arrivals.complete
    arrivals.sent[0] = 5.1
    assert arrivals.complete
    assert arrivals.latencies_ms(0) == [0.0]


@pytest.mark.parametrize("wrong", [SINK.value(0), SINK.value(2), SOURCE.value(1), b""])
def test_arrivals_that_are_repeated_or_lost_or_of_others_are_refused(wrong: bytes) -> None:
    arrivals = Arrivals(SINK, 3)
    arrivals.arrived(SINK.value(0), 1.0)
    with pytest.raises(WrongOutcome, match=r"b'sink:1' was due in 'sink\.txt'"):
        arrivals.arrived(wrong, 1.0)


def test_arrivals_after_the_last_one_are_refused() -> None:
    arrivals = Arrivals(SINK, 1)
    arrivals.arrived(SINK.value(0), 1.0)
    with pytest.raises(WrongOutcome, match="nothing"):
        arrivals.arrived(SINK.value(1), 1.0)


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_lines_arrive_when_they_are_whole(size: int) -> None:
    arrivals = Arrivals(SINK, 3)
    whole = b"".join(SINK.value(number) + b"\n" for number in range(3))
    for at in range(0, len(whole), size):
        arrivals.appended(whole[at : at + size], float(at))
    ends = [index for index, byte in enumerate(whole) if byte == ord("\n")]
    assert arrivals.came == [float(end - end % size) for end in ends]


def test_latencies_are_reported_of_some_connectors() -> None:
    measured = Measured({SINK: [1.0, 2.0], SOURCE: [3.0]}, cores=0.1)
    assert measured.of(lambda probed: probed.sink) == [1.0, 2.0]
    assert measured.of(lambda probed: True) == [1.0, 2.0, 3.0]


def test_events_tell_which_files_were_modified() -> None:
    events = [struct.pack("iIII", watch, 2, 0, 0) for watch in (3, 1, 3)]
    named = struct.pack("iIII", 2, 2, 0, 4) + b"a\0\0\0"
    assert modified(b"".join([events[0], named, *events[1:]])) == [3, 2, 1]
    assert modified(b"") == []


def test_lost_events_are_an_error() -> None:
    with pytest.raises(OSError, match="lost events"):
        modified(struct.pack("iIII", -1, 0x4000, 0, 0))


def test_lines_appended_to_a_file_are_heard_of(tmp_path: Path) -> None:
    sinks = [Probed(name, tmp_path / name, sink=True) for name in ("a", "b")]
    for sink in sinks:
        sink.file.touch()
    found = Probe(TOPICS, sinks, Pace(1, 1))
    with found._beside(found._watch_files):
        for sink in sinks:
            with sink.file.open("ab") as out:

                def came(sink: Probed = sink) -> bool:
                    return len(found._arrivals[sink].came) == 1

                out.write(sink.value(0)[:1])
                out.flush()
                out.write(sink.value(0)[1:] + b"\n")
                out.flush()
                wait_until(came, 10, "the line to be heard of")
    found._raise_failure()


def test_a_wrong_line_fails_the_probe(tmp_path: Path) -> None:
    sink = Probed("a", tmp_path / "a", sink=True)
    sink.file.touch()
    found = Probe(TOPICS, [sink], Pace(1, 1))
    with found._beside(found._watch_files):
        with sink.file.open("ab") as out:
            out.write(b"something else\n")
        wait_until(lambda: bool(found._failures), 10, "the failure")
    with pytest.raises(WrongOutcome, match="was due"):
        found._raise_failure()


def test_a_write_to_a_slow_sink_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_SLOW_WRITE_S", 0.2)
    slow = Probed("slow", tmp_path / "slow", sink=True, slow=True)
    found = Probe(TOPICS, [slow], Pace(1, 1))
    with found.pipes():
        out = os.open(slow.file, os.O_WRONLY)
        for number in range(2):
            found._arrivals[slow].next = number + 1
            begin = time.monotonic()
            rest = slow.value(number) + b"\n"
            while rest:
                rest = rest[os.write(out, rest) :]
            assert time.monotonic() - begin >= 0.15
        os.close(out)
        wait_until(lambda: len(found._arrivals[slow].came) == 2, 10, "both records")
    found._raise_failure()
