"""The demo from beginning to end: a file through Kafka into another, on its own cluster.

Set up, move, compare, report the outcome, and leave nothing running. Only this module of the demo
knows the time and the terminal.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from penstock.demo import folder as places
from penstock.demo.cluster import DemoWatch, Rest, create, near_port, until
from penstock.demo.folder import SINK, SOURCE, Folder, chunks
from penstock.demo.lines import LINE_LIMIT, Digest, digest, first_difference, lines_of
from penstock.demo.processes import WORKER_STOP_S, BrokerProcess, DemoInterrupted, Interrupts
from penstock.demo.progress import SILENT_MS, DemoProgress, Look
from penstock.demo.summary import Outcome, afterwards, next_steps, rows, table, verdict
from penstock.demo.view import View, view_for
from penstock.demo.words import percent, size_words
from penstock.errors import PenstockError, Unavailable
from penstock.host import jars
from penstock.host.processes import Process, exit_words, worker_command
from penstock.kafka.broker import Broker, disk_free_mb, free_port

_REST_MS: Final = 60_000
_CREATE_MS: Final = 60_000
_LOOK_S: Final = 0.1
_STATUS_EVERY_MS: Final = 500


class DemoTaskFailed(PenstockError):
    """A connector or a task of the demo failed."""


class Stalled(PenstockError):
    """The records do not move and the tasks do not run."""


def run_demo(file: Path | None, keep: bool, home: Path, debug: bool) -> int:
    """Moves `file`, or a sample, and returns the exit code.

    0 if every line arrived once and in order, 128 + signal if interrupted, otherwise the exit code
    of the error, which is reported in one message (with a stack trace only if `debug`). With `keep`
    the cluster stays up until Ctrl-C, which then is not an interruption. All files are written to
    `home`/demo. Call it from the main thread, or signals are not handled.
    """
    console, errors = Console(), Console(stderr=True)
    try:
        with Interrupts() as interrupts:
            return _Demo(file, keep, Folder(home.absolute() / "demo"), console, interrupts).run()
    except DemoInterrupted as interrupted:
        _print_error(errors, f"Interrupted ({interrupted}). Nothing was left running.")
        return interrupted.exit_code
    except PenstockError as error:
        _print_error(errors, str(error), trace=debug)
        return error.exit_code
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        _print_error(errors, f"{about}{error.strerror or error}.", trace=debug)
        return 1
    except Exception as error:
        _print_error(
            errors,
            f"Unexpected {type(error).__name__}: {error}. Run it with --debug to see where.",
            trace=debug,
        )
        return 1


@dataclass(frozen=True, slots=True)
class _Sent:
    """The file to move, as it was when the demo read it."""

    file: Path
    digest: Digest
    stamp: tuple[int, int, int]


class _Demo:
    """One run. `run` does everything; `_stop` always stops the processes it started."""

    def __init__(
        self,
        file: Path | None,
        keep: bool,
        folder: Folder,
        console: Console,
        interrupts: Interrupts,
    ) -> None:
        self._file = file
        self._keep = keep
        self._folder = folder
        self._console = console
        self._interrupts = interrupts
        self._broker: BrokerProcess | None = None
        self._worker: Process | None = None
        self._open: list[Rest | DemoWatch] = []
        self._bootstrap = ""
        self._url = ""

    def run(self) -> int:
        with self._folder.locked():
            in_order = False
            keeps_running = False
            try:
                with view_for(self._console, _now) as view:
                    outcome = self._move(view)
                self._summarize(outcome)
                if self._keep:
                    keeps_running = True
                    self._keep_running(outcome)
            finally:
                in_order = self._stop()
            if self._interrupts.received is not None and not keeps_running:
                raise DemoInterrupted(self._interrupts.received)
            self._say_afterwards(keeps_running)
            return 0 if outcome.equal and in_order and self._nothing_followed(outcome) else 1

    def _move(self, view: View) -> Outcome:
        if self._file is not None:
            self._file = places.check_file(self._file, self._folder)
        view.begin("Java and jars")
        jars.java()
        for name in ("broker", "spark"):
            jars.folder(name, view.detail)
        view.end("ready")
        self._folder.clear()
        sent = self._read_source(view)
        self._start_broker(view)
        rest = self._start_worker(view)
        watch = DemoWatch(self._bootstrap)
        self._open.append(watch)
        started_ms = self._create_connectors(view, rest, sent)
        progress = self._watch_records(view, rest, watch, sent, started_ms)
        return self._compare(view, sent, progress)

    def _read_source(self, view: View) -> _Sent:
        if self._file is None:
            view.begin("sample")
            file = self._folder.write_sample(lambda size: view.detail(size_words(size)))
        else:
            view.begin("file")
            file = self._file
        total = file.stat().st_size
        free_mb = disk_free_mb(self._folder.path)
        places.check_room(self._folder, free_mb, total)
        stamp = _stamp(file)
        source = digest(
            chunks(file, seen=lambda size: view.detail(f"read {percent(size, total)}")),
            name=str(file),
            limit=LINE_LIMIT,
        )
        places.check_lines(str(file), source)
        view.end(f"{file}: {source.lines:,} lines, {size_words(source.size)}")
        return _Sent(file, source, stamp)

    def _start_broker(self, view: View) -> None:
        view.begin("Kafka")
        broker = Broker(self._folder.kafka, say=view.detail)
        self._broker = BrokerProcess(broker)
        self._interrupts.hurry.append(self._broker.kill)
        self._broker.start(self._interrupts)
        self._bootstrap = broker.bootstrap
        view.end(f"answers at {broker.bootstrap}")

    def _start_worker(self, view: View) -> Rest:
        view.begin("worker")
        port = near_port() if self._keep else free_port()
        self._folder.properties.write_text(places.worker_properties(self._bootstrap, port))
        command = worker_command(self._folder.properties)
        self._worker = worker = Process(command, self._folder.worker_log)
        self._interrupts.hurry.append(worker.kill_all)
        with self._interrupts.held():
            worker.start()
        view.detail(f"started, process {worker.pid}; waiting for its REST interface")
        self._url = f"http://127.0.0.1:{port}"
        rest = Rest(self._url)
        self._open.append(rest)
        if not until(rest.answers, tick=self._tick, timeout_ms=_REST_MS, now=_now):
            raise Unavailable(
                f"The worker (process {worker.pid}) did not answer at {rest.url} within "
                f"{_REST_MS // 1000} s; see {worker.log}."
            )
        view.end(f"REST answers at {rest.url}, process {worker.pid}")
        return rest

    def _create_connectors(self, view: View, rest: Rest, sent: _Sent) -> int:
        view.begin("connectors")
        view.detail(f"creating {SOURCE}")
        source = places.source_config(sent.file)
        create(rest, SOURCE, source, tick=self._tick, timeout_ms=_CREATE_MS, now=_now)
        started_ms = _now()
        view.detail(f"creating {SINK}")
        sink = places.sink_config(self._folder.received)
        create(rest, SINK, sink, tick=self._tick, timeout_ms=_CREATE_MS, now=_now)
        view.end(f"{SOURCE} and {SINK} created")
        return started_ms

    def _watch_records(
        self, view: View, rest: Rest, watch: DemoWatch, sent: _Sent, started_ms: int
    ) -> DemoProgress:
        view.begin("records")
        progress = DemoProgress.start(sent.digest.lines, sent.digest.size, started_ms)
        asked_ms = 0
        while not progress.settled:
            self._tick()
            ask = _now() - asked_ms >= _STATUS_EVERY_MS
            asked_ms = _now() if ask else asked_ms
            look = self._look(rest if ask else None, watch)
            progress = progress.seen(_now(), look)
            view.progress(progress)
            view.detail("moving" if progress.into_topic.count else progress.waiting_for)
            if progress.failed:
                raise DemoTaskFailed(
                    "\n".join(f"{part.name} FAILED: {part.trace}" for part in progress.failed)
                )
            if progress.stalled:
                break
        if progress.stalled and not progress.running:
            raise Stalled(
                f"Nothing has moved for {progress.quiet_ms // 1000} s and not everything runs: "
                f"{progress.states()}. {progress.into_topic.count:,} of {progress.lines:,} records "
                f"are in the topic, {progress.out_of_topic.count:,} came out. See "
                f"{self._folder.worker_log}."
            )
        count = progress.out_of_topic.count
        if progress.settled:
            view.end(f"{count:,} moved in {progress.taken_ms / 1000:.1f} s")
        else:
            view.end(f"only {count:,} moved; nothing more came for {SILENT_MS // 1000} s")
        return progress

    def _look(self, rest: Rest | None, watch: DemoWatch) -> Look:
        out = watch.records_out()  # before the end offset, so that a lag is never too small
        parts = None
        if rest is not None:
            source, sink = rest.parts(SOURCE), rest.parts(SINK)
            parts = None if source is None or sink is None else source + sink
        return Look(
            records_in=watch.records_in(),
            records_out=out,
            position=watch.position(),
            written=_size(self._folder.received),
            parts=parts,
        )

    def _tick(self) -> None:
        """Waits a moment; raises if a process has ended."""
        threading.Event().wait(_LOOK_S)
        if self._broker is not None:
            self._broker.check()
        if self._worker is not None:
            self._worker.check()

    def _compare(self, view: View, sent: _Sent, progress: DemoProgress) -> Outcome:
        view.begin("comparing")
        received = self._folder.received
        received.touch()  # it does not exist if nothing arrived
        changed = _stamp(sent.file) != sent.stamp
        received_size = _size(received)
        size = sent.digest.normal_size if changed else received_size
        received_digest = digest(
            chunks(received, size, seen=lambda at: view.detail(f"read {percent(at, size)}"))
        )
        outcome = Outcome(
            source=sent.file,
            received=received,
            sent=sent.digest,
            got=received_digest,
            more=max(0, received_size - size),
            source_changed=changed,
            difference=None,
            progress=progress,
        )
        if not outcome.equal:
            view.detail("looking for the first difference")
            outcome = _with_difference(outcome)
        view.end("equal" if outcome.equal else "not equal")
        return outcome

    def _summarize(self, outcome: Outcome) -> None:
        self._say("")
        self._say(f"{'✓' if outcome.equal else '✗'} {verdict(outcome)}", bold=True)
        facts = rows(outcome)
        facts += [("logs", f"{self._folder.worker_log}, {self._folder.kafka / 'broker.log'}")]
        self._say(table(facts))

    def _keep_running(self, outcome: Outcome) -> None:
        """Leaves everything running until the user interrupts it or Kafka ends."""
        assert self._worker is not None
        assert self._broker is not None
        port = near_port()
        self._folder.second_properties.write_text(places.worker_properties(self._bootstrap, port))
        self._say(table([("REST", self._url), ("Kafka", self._bootstrap)]))
        self._say("")
        steps = next_steps(
            self._folder, outcome.source, self._url, self._bootstrap, self._worker.pid, port
        )
        for line in steps:
            self._say(line)
        self._say("")
        self._say("Everything is left running. Press Ctrl-C to end it.", bold=True)
        reported = False
        with contextlib.suppress(DemoInterrupted):
            while self._broker.alive:
                threading.Event().wait(0.5)
                code = self._worker.ended
                if code is not None and not reported:
                    reported = True
                    self._say(f"The first worker has ended ({exit_words(code)}). Kafka still runs.")
            self._say("Kafka has ended.")

    def _stop(self) -> bool:
        """Stops all processes, even if the terminal fails; False if the worker had to be killed."""
        self._interrupts.ending()
        in_order = True
        with contextlib.ExitStack() as last:
            if self._broker is not None:
                last.callback(self._broker.stop)
            for opened in self._open:
                last.callback(opened.close)
            if self._worker is not None:
                with self._doing("stopping the worker"):
                    in_order = self._worker.stop(WORKER_STOP_S)
            if self._broker is not None and self._broker.alive:
                with self._doing("stopping Kafka"):
                    self._broker.stop()
        if not in_order and self._interrupts.received is None:
            self._say(
                f"The worker did not end within {WORKER_STOP_S} s of SIGTERM and was killed; see "
                f"{self._folder.worker_log}."
            )
        return in_order

    @contextlib.contextmanager
    def _doing(self, step: str) -> Iterator[None]:
        status = contextlib.ExitStack()
        with contextlib.suppress(OSError):
            if self._console.is_terminal:
                status.enter_context(self._console.status(f"{step} (Ctrl-C kills it)"))
            else:
                self._say(f"{step} …")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                status.close()

    def _nothing_followed(self, outcome: Outcome) -> bool:
        """Whether the worker wrote nothing more into the file while it stopped."""
        grown = _size(outcome.received) - outcome.got.normal_size - outcome.got.tail - outcome.more
        if grown == 0 or self._keep or outcome.source_changed:
            return True
        self._say(f"✗ {grown:,} more bytes arrived in {outcome.received} after the last line.")
        return False

    def _say_afterwards(self, keeps_running: bool) -> None:
        if keeps_running:
            self._say("Everything has ended.")
            return
        self._say("")
        for line in afterwards(self._folder):
            self._say(line)

    def _say(self, text: str, *, bold: bool = False) -> None:
        self._console.print(
            text,
            style="bold" if bold else None,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
        )


def _with_difference(outcome: Outcome) -> Outcome:
    return replace(
        outcome,
        difference=first_difference(
            lines_of(chunks(outcome.source, outcome.sent.size)),
            lines_of(chunks(outcome.received)),
        ),
    )


def _now() -> int:
    return time.monotonic_ns() // 1_000_000


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _stamp(file: Path) -> tuple[int, int, int]:
    """Changes when a file is written to or replaced."""
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def _print_error(errors: Console, message: str, *, trace: bool = False) -> None:
    with contextlib.suppress(OSError):
        if trace:
            traceback.print_exc(file=errors.file)
        errors.print(
            f"penstock demo: {message}", markup=False, emoji=False, highlight=False, soft_wrap=True
        )
