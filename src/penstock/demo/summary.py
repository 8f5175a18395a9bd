"""The demo's summary: whether every line arrived, how fast it was, what to try next."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.demo.folder import SINK, SOURCE, TOPIC, Folder
from penstock.demo.lines import Difference, Digest
from penstock.demo.progress import DemoProgress, per_second
from penstock.demo.words import rate_words, size_words
from penstock.host.processes import worker_command

Rows = list[tuple[str, str]]

_LABEL: Final = 14


@dataclass(frozen=True, slots=True)
class Outcome:
    """The moved file, the comparison, and the time it took."""

    source: Path
    received: Path
    sent: Digest  # the source file as it was at the start
    got: Digest  # these lines as the sink wrote them
    more: int  # bytes that the sink wrote beyond them
    source_changed: bool  # the file was written to while it was moved
    difference: Difference | None
    progress: DemoProgress

    @property
    def equal(self) -> bool:
        """Whether every line arrived once and in order."""
        same = (self.got.lines, self.got.normal_sha256, self.got.tail) == (
            self.sent.lines,
            self.sent.normal_sha256,
            0,
        )
        # More bytes are allowed only if the source changed: lines may have been appended to it.
        return same and (self.more == 0 or self.source_changed)


def verdict(outcome: Outcome) -> str:
    """The result in one sentence."""
    if outcome.equal:
        return f"All {outcome.sent.lines:,} lines arrived, once and in order."
    if outcome.difference is not None:
        return f"The files differ: {outcome.difference}."
    return (
        f"The files differ: {outcome.sent.lines:,} lines were to be moved, and "
        f"{outcome.got.lines:,} lines and {outcome.more + outcome.got.tail:,} more bytes arrived."
    )


def rows(outcome: Outcome) -> Rows:
    """The facts, each with its label."""
    sent, progress = outcome.sent, outcome.progress
    into, out = progress.into_topic, progress.out_of_topic
    facts: Rows = [
        ("from", f"{outcome.source} ({sent.lines:,} lines, {sent.size:,} bytes)"),
        ("to", f"{outcome.received} ({outcome.got.lines:,} lines, {outcome.got.size:,} bytes)"),
        *_checksums(outcome),
        ("file → topic", f"{_speed(into.count, into.taken_ms)} from the first record to the last"),
        (
            "topic → file",
            f"{_speed(out.count, out.taken_ms)} from the first record there to the last commit",
        ),
        (
            "end to end",
            f"{_speed(out.count, progress.taken_ms)} from creating the connectors to the last "
            f"commit, {size_words(int(per_second(sent.size, progress.taken_ms)))}/s",
        ),
    ]
    return facts + [("note", text) for text in _notes(outcome)]


def next_steps(
    folder: Folder,
    source: Path,
    url: str,
    bootstrap: str,
    worker_pid: int | None,
    second_port: int,
) -> list[str]:
    """What to try while the cluster runs; lines to copy begin with two spaces."""
    first, second = (_command(file) for file in (folder.properties, folder.second_properties))
    return [
        "In another terminal:",
        f"  export PENSTOCK_URL={url} PENSTOCK_BOOTSTRAP_SERVERS={bootstrap}",
        f"  alias penstock={shlex.quote(_penstock())}",
        "Look around:",
        "  penstock status",
        f"  penstock read {TOPIC} --from -3",
        f"  curl {url}/connectors/{SINK}/status",
        "Append a line to the source and see it arrive:",
        f"  echo 'one more' >> {shlex.quote(str(source))}",
        f"  tail -n 1 {shlex.quote(str(folder.received))}",
        f"Start a second worker in another terminal; its REST is on port {second_port}:",
        f"  {second}",
        "Kill the first one, and soon the second has its tasks (its Spark takes a while to start):",
        f"  kill -9 {worker_pid}",
        f"  penstock status {SOURCE} --url http://127.0.0.1:{second_port}",
        "Start the first one again:",
        f"  {first}",
    ]


def afterwards(folder: Folder) -> list[str]:
    """What to try when nothing is left running."""
    return [
        "The same, left running to play with:      make demo KEEP=1",
        "The same with a file of your own:         make demo FILE=path",
        f"The worker's settings, to start from:     {folder.properties}",
    ]


def table(facts: Sequence[tuple[str, str]]) -> str:
    """Facts as aligned lines."""
    return "\n".join(f"{label:>{_LABEL}}  {text}" for label, text in facts)


def _checksums(outcome: Outcome) -> Rows:
    sent, got = outcome.sent, outcome.got
    if sent.plain:
        if sent.sha256 == got.sha256:
            return [("SHA-256", f"{sent.sha256}, of both files")]
        return [("SHA-256", f"{sent.sha256} sent"), ("", f"{got.sha256} received")]
    if sent.normal_sha256 == got.normal_sha256:
        return [
            ("SHA-256", f"{got.sha256}, of the lines of both files"),
            ("", f"{sent.sha256}, of the source file as it stands"),
        ]
    return [
        ("SHA-256", f"{sent.normal_sha256} lines sent"),
        ("", f"{got.normal_sha256} lines received"),
    ]


def _notes(outcome: Outcome) -> list[str]:
    sent = outcome.sent
    notes = []
    if not sent.plain:
        notes.append(
            "the source has line ends other than LF, or bytes that are not UTF-8. Such line ends "
            "arrive as LF and such bytes as U+FFFD, so the lines were compared, not the bytes."
        )
    if sent.tail:
        notes.append(
            f"the last line of the source has no end ({size_words(sent.tail)}). The source "
            "connector waits for its end, so it was neither sent nor compared."
        )
    if outcome.source_changed:
        notes.append(
            "the source was written to meanwhile. The lines it had at the start were compared"
            + (f"; {outcome.more:,} bytes of later ones arrived too." if outcome.more else ".")
        )
    return notes


def _speed(count: int, taken_ms: int) -> str:
    if taken_ms <= 0:
        return f"{count:,} records, too few to measure a rate"
    return (
        f"{rate_words(per_second(count, taken_ms))}: {count:,} records in {taken_ms / 1000:.1f} s"
    )


def _command(properties: Path) -> str:
    command = shlex.join(worker_command(properties))
    home = os.environ.get("PENSTOCK_HOME")
    return f"PENSTOCK_HOME={shlex.quote(home)} {command}" if home else command


def _penstock() -> str:
    """The command, by its path, quoted for a shell."""
    beside = Path(sys.executable).with_name("penstock")
    if os.access(beside, os.X_OK):
        return shlex.quote(os.fspath(beside))
    return f"{shlex.quote(sys.executable)} -m penstock"
