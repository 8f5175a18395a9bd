"""Many connectors with a few records per second each, as in most clusters.

All begin with a fresh worker. Every connector has one task, a topic of one partition, a file and
StringConverter. The records of the first `WARM_S` seconds do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from benchmarks.probe import Measured, Pace, Probe, Probed
from benchmarks.runtimes import Session
from benchmarks.scenarios import (
    Load,
    Note,
    Scenario,
    delete_topics,
    note_latencies,
    probed_configs,
    probed_connectors,
)
from benchmarks.watching import cpu_s, percentile, usage

CONNECTORS: Final = 20
PER_S: Final = 5
CROWD: Final = 100
"""Sinks of `quiet-200`; it has as many sources."""
CROWD_PER_S: Final = 1
WARM_S: Final = 15.0


def quiet(*, sink: bool) -> Callable[[Session, Load, Note], None]:
    """Some connectors of one kind."""

    def measure(session: Session, load: Load, note: Note) -> None:
        connectors = probed_connectors(session, "quiet", CONNECTORS, sink=sink)
        measured = _measure(session, load, note, connectors, PER_S)
        note_latencies(note, "", measured.of(lambda probed: True))

    return measure


def crowd(session: Session, load: Load, note: Note) -> None:
    """Many connectors, half of them sinks and half of them sources."""
    connectors = probed_connectors(session, "crowd-sink", CROWD, sink=True)
    connectors += probed_connectors(session, "crowd-source", CROWD, sink=False)
    measured = _measure(session, load, note, connectors, CROWD_PER_S)
    note_latencies(note, "sink.", measured.of(lambda probed: probed.sink))
    note_latencies(note, "source.", measured.of(lambda probed: not probed.sink))


def slow_neighbour(session: Session, load: Load, note: Note) -> None:
    """Some sinks, one of which takes two seconds per write: its file is a named pipe. The figures
    are those of the others."""
    others = probed_connectors(session, "quiet", CONNECTORS - 1, sink=True)
    (slow,) = probed_connectors(session, "slow", 1, sink=True)
    slow.file.unlink()
    connectors = [Probed(slow.topic, slow.file, sink=True, slow=True), *others]
    measured = _measure(session, load, note, connectors, PER_S)
    note_latencies(note, "", measured.of(lambda probed: not probed.slow))
    note_latencies(note, "slow.", measured.of(lambda probed: probed.slow))


def _measure(
    session: Session, load: Load, note: Note, connectors: Sequence[Probed], per_s: float
) -> Measured:
    """Runs the connectors, and notes the figures that all kinds of connectors share."""
    probe = Probe(session.topics, connectors, Pace(load.seconds, per_s, WARM_S))
    with probe.pipes(), session.running_each(probed_configs(connectors)) as requested_at:
        session.await_connectors(len(connectors))
        running = time.monotonic()
        measured = probe.measure(partial(cpu_s, session.worker.pid), session.check)
        used = usage(session.worker.pid)
        session.await_connectors(len(connectors))
    probe.verify()
    delete_topics(session.topics, [probed.topic for probed in connectors])
    note("running_s", running - max(requested_at))
    note("running.from_first_s", running - min(requested_at))
    note("cpu", measured.cores)
    note("probe_late.p99_ms", percentile(measured.late_ms, 99))
    note("memory_mb", used.memory_mb)
    for program, memory in sorted(used.programs.items()):
        note(f"memory_mb.{program}", memory)
    return measured


_EACH: Final = f"{CONNECTORS} × {PER_S} records/s"

SCENARIOS: Final = (
    Scenario("quiet-sinks", f"sinks, {_EACH}", quiet(sink=True)),
    Scenario("quiet-sources", f"sources, {_EACH}", quiet(sink=False)),
    Scenario("quiet-200", f"{CROWD} sinks, {CROWD} sources, {CROWD_PER_S} record/s each", crowd),
    Scenario("slow-neighbour", f"sinks, {_EACH}, one of them slow", slow_neighbour),
)
