"""One worker as a process: from its settings to a clean end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from penstock.cli.service import ServiceReporting
from penstock.clock import SystemClock
from penstock.cluster.records import SessionKey
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.config.properties import parse_properties, parse_properties_text
from penstock.errors import StartupFailed
from penstock.host import notify
from penstock.java import finding
from penstock.rest.app import Context
from penstock.rest.forward import Client, LeaderClient
from penstock.rest.server import Server
from penstock.rest.tls import forwarding
from penstock.runtime.providers import LogFilter, resolved_worker
from penstock.runtime.standalone import ConnectorFileFailed, StandaloneWorker, lone_config
from penstock.runtime.worker import Worker

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0  # how late a signal may be noticed


def read_worker_file(file: Path) -> dict[str, str]:
    """The settings in a properties file; raises StartupFailed when it cannot be read."""
    try:
        return parse_properties(file.read_bytes())
    except OSError as error:
        raise StartupFailed(f"Cannot read the worker file '{file}': {error.strerror}.") from error


def worker_settings(file: Path | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A worker's settings: those in the file, if given, overridden by `CONNECT_*` variables. Raises
    StartupFailed when the file cannot be read.

    As in the container images, the value of a variable is parsed like a value in a properties file:
    a backslash is written twice.
    """
    variables = worker_config.from_environment(environ)
    lines = "\n".join(f"{name}={value}" for name, value in variables.items())
    settings = {} if file is None else read_worker_file(file)
    return {**settings, **parse_properties_text(lines)}


def distributed(props: Mapping[str, str], started: Callable[[str], None]) -> None:
    """Runs a worker of a cluster until SIGTERM, Ctrl-C or a fatal error.

    `started` is called with the URL once REST answers. Raises the error that kept the worker from
    starting, or ended it.
    """
    registry = finding.registry(props)
    config = worker_config.parse_distributed(resolved_worker(props, registry))
    for text in worker_config.warnings(config):
        log.warning("%s", text)
    client = Client(forwarding(config))
    server = Server(config)
    host = socket.gethostname()
    worker: Worker

    def session_key() -> SessionKey | None:
        member = worker.state.membership.member
        signs = member is not None and member.protocol == "sessioned"
        return worker.state.cluster.session_key if signs else None

    try:
        url = worker_config.advertised_url(config, server.port, host)
        worker = Worker(
            config,
            registry,
            url=url,
            worker_id=worker_config.worker_id(config, server.port, host),
            clock=SystemClock(),
            leader=LeaderClient(client, session_key, config[keys.INTER_WORKER_SIGNATURE_ALGORITHM]),
        )
        manager = notify.manager()
        with _Signals(worker, manager), _quiet_about_secrets(worker):
            server.start(Context(worker, client))
            started(url)
            worker.start()
            ServiceReporting(worker, manager, url).start()
            _await_end(worker)
        if worker.failure is not None:
            raise worker.failure
    finally:
        server.stop()
        client.close()


def standalone(
    worker_file: Path | None,
    connector_files: Sequence[Path] = (),
    started: Callable[[str], None] = lambda url: log.info("REST listens on %s", url),
) -> None:
    """Runs a standalone worker with the connectors in the files, until SIGTERM, Ctrl-C or a fatal
    error (kafka-connect.md §12). `worker_file` and variables: see `worker_settings`.

    `started` is called with the URL once REST answers. Raises the error that kept the worker from
    starting or ended it, or ConnectorFileFailed (exit code 3).
    """
    settings = worker_settings(worker_file)
    registry = finding.registry(settings)
    config = lone_config(resolved_worker(settings, registry))
    client = Client(forwarding(config))
    server = Server(config)
    host = socket.gethostname()
    try:
        url = worker_config.advertised_url(config, server.port, host)
        worker = StandaloneWorker(
            config,
            registry,
            url=url,
            worker_id=worker_config.worker_id(config, server.port, host),
            clock=SystemClock(),
            # It is its own leader; this is never called.
            leader=LeaderClient(
                client, lambda: None, config[keys.INTER_WORKER_SIGNATURE_ALGORITHM]
            ),
        )
        manager = notify.manager()
        with _Signals(worker, manager), _quiet_about_secrets(worker):
            server.start(Context(worker, client))
            started(url)
            worker.start()
            ServiceReporting(worker, manager, url).start()
            try:
                worker.load(connector_files)
            except ConnectorFileFailed:
                worker.stop()
                _await_end(worker)
                raise
            _await_end(worker)
        if worker.failure is not None:
            raise worker.failure
    finally:
        server.stop()
        client.close()


@contextmanager
def _quiet_about_secrets(worker: Worker) -> Iterator[None]:
    """Redacts values of config providers in everything that this process logs."""
    handlers, quiet = tuple(logging.getLogger().handlers), LogFilter(worker.planner.providers)
    for handler in handlers:
        handler.addFilter(quiet)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(quiet)


def _await_end(worker: Worker) -> None:
    """Python runs signal handlers only in this thread, and a signal that the system has delivered
    to another one does not wake it: so it polls."""
    while not worker.ended.wait(_LOOK_S):
        pass


class _Signals:
    """SIGTERM and Ctrl-C stop the worker; a second one kills the process."""

    def __init__(self, worker: Worker, manager: notify.Manager) -> None:
        self._worker = worker
        self._manager = manager

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._stop)

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        log.info("stopping (%s)", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        self._manager.notify(notify.STOPPING)
        self._worker.stop()
