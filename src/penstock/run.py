"""One worker as a process: from a properties file to a clean end."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from penstock.clock import SystemClock
from penstock.cluster.records import SessionKey
from penstock.config import worker as keys
from penstock.config.define import Config
from penstock.config.properties import parse_properties
from penstock.errors import StartupFailed
from penstock.plugins import Registry
from penstock.rest.app import Context, Server
from penstock.rest.forward import Client, Leader
from penstock.worker import Worker

log = logging.getLogger(__name__)


def read_worker_file(file: Path) -> dict[str, str]:
    """The settings in a properties file; raises StartupFailed when it cannot be read."""
    try:
        return parse_properties(file.read_bytes())
    except OSError as error:
        raise StartupFailed(f"Cannot read the worker file '{file}': {error.strerror}.") from error


def distributed(props: Mapping[str, str], started: Callable[[str], None]) -> None:
    """Runs a worker of a cluster until it is told to stop (SIGTERM, Ctrl-C) or cannot go on.

    `started` is told the URL once REST answers. Raises what keeps the worker from starting, or
    what ended it.
    """
    config = keys.parse_distributed(props)
    _refuse_what_is_not_there(config)
    server = Server(config)
    client = Client()
    host = socket.gethostname()
    worker: Worker

    def session_key() -> SessionKey | None:
        member = worker.state.member
        signs = member is not None and member.protocol == "sessioned"
        return worker.state.cluster.session_key if signs else None

    try:
        url = keys.advertised_url(config, server.port, host)
        worker = Worker(
            config,
            Registry.installed(),
            url=url,
            worker_id=keys.worker_id(config, server.port, host),
            clock=SystemClock(),
            leader=Leader(client, session_key, config[keys.INTER_WORKER_SIGNATURE_ALGORITHM]),
        )
        with _Signals(worker):
            server.start(Context(worker, client))
            started(url)
            worker.start()
            worker.ended.wait()
        if worker.failure is not None:
            raise worker.failure
    finally:
        server.stop()
        client.close()


class _Signals:
    """SIGTERM and Ctrl-C ask the worker to stop; a second one ends the process at once."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

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
        self._worker.stop()


def _refuse_what_is_not_there(config: Config) -> None:
    """Settings whose effect would be missed without a word are refused aloud."""
    if config[keys.CONFIG_PROVIDERS]:
        raise StartupFailed("config.providers are not offered yet; write the values themselves.")
