from dataclasses import replace
from pathlib import Path

from penstock.demo.folder import Folder
from penstock.demo.lines import digest, first_difference, lines_of
from penstock.demo.progress import DemoProgress, Look
from penstock.demo.summary import Outcome, afterwards, next_steps, rows, verdict


def outcome(sent: bytes, got: bytes) -> Outcome:
    progress = DemoProgress.start(2, len(sent), 0)
    for now_ms, count in [(0, 0), (1_000, 1), (2_000, 2)]:
        progress = progress.seen(now_ms, Look(count, count))
    return Outcome(
        source=Path("/in.txt"),
        received=Path("/out.txt"),
        sent=digest([sent]),
        got=digest([got]),
        more=0,
        source_changed=False,
        difference=first_difference(lines_of([sent]), lines_of([got])),
        progress=progress,
    )


def text(of: Outcome) -> str:
    return "\n".join(f"{label}: {fact}" for label, fact in rows(of))


def test_equal_files_are_called_equal_by_their_one_checksum() -> None:
    same = outcome(b"a\nb\n", b"a\nb\n")
    assert same.equal
    assert verdict(same) == "All 2 lines arrived, once and in order."
    assert "of both files" in text(same)
    assert "note" not in text(same)
    assert "1 rec/s: 2 records in 2.0 s" in text(same)


def test_other_line_ends_are_equal_by_their_lines_and_said_to_be_other() -> None:
    same = outcome(b"a\r\nb\xff\n", b"a\nb\xef\xbf\xbd\n")
    assert same.equal
    assert "of the lines of both files" in text(same)
    assert "arrive as LF" in text(same)


def test_a_last_line_without_an_end_is_mentioned() -> None:
    same = outcome(b"a\nb", b"a\n")
    assert same.equal
    assert "the last line of the source has no end (1 byte)" in text(same)


def test_a_lost_doubled_or_swapped_line_is_a_difference() -> None:
    for got, word in [(b"b\nc\n", "lost"), (b"a\na\nb\nc\n", "twice"), (b"b\na\nc\n", "swapped")]:
        differs = outcome(b"a\nb\nc\n", got)
        assert not differs.equal
        assert word in verdict(differs)
        assert "received" in text(differs)


def test_an_unfinished_line_in_the_copy_is_a_difference() -> None:
    differs = outcome(b"a\nb\n", b"a\nb\nx")
    assert not differs.equal
    assert "more bytes" in verdict(differs)


def test_more_lines_are_fine_only_when_the_source_grew() -> None:
    more = replace(outcome(b"a\nb\n", b"a\nb\n"), more=10)
    assert not more.equal
    assert replace(more, source_changed=True).equal
    assert "10 bytes of later ones" in text(replace(more, source_changed=True))


def test_the_next_commands_can_be_copied() -> None:
    url, kafka = "http://127.0.0.1:8083", "127.0.0.1:9"
    lines = next_steps(Folder(Path("/h/demo")), Path("/a b.txt"), url, kafka, 42, 2)
    assert f"  export PENSTOCK_URL={url} PENSTOCK_BOOTSTRAP_SERVERS={kafka}" in lines
    assert any(line.startswith("  alias penstock=") for line in lines)
    assert f"  curl {url}/connectors/demo-sink/status" in lines
    assert "  kill -9 42" in lines
    assert "  echo 'one more' >> '/a b.txt'" in lines
    assert any(line.endswith("distributed /h/demo/worker-2.properties") for line in lines)
    assert any("KEEP=1" in line for line in afterwards(Folder(Path("/h/demo"))))
