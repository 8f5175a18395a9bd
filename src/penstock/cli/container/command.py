"""The command `penstock container`, the entry point of the image."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import click

from penstock import VERSION
from penstock.cli.container import machine, memory, starting, variables
from penstock.cli.running import debug_option
from penstock.config.worker import parse_distributed
from penstock.errors import PenstockError
from penstock.host import logs

CONNECTORS: Final = "PENSTOCK_CONNECTORS"
"""The folder of connectors to apply at the start; without it, none are applied."""

log = logging.getLogger(__name__)


@click.command(
    epilog="Variables: CONNECT_* as in cp-kafka-connect, or Debezium's; docs/deploy.md lists them."
)
@click.argument(
    "action", type=click.Choice(["run", "health", "check"]), default="run", required=False
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@debug_option
def container(action: str, file: Path | None, debug: bool) -> int:
    """Run a worker of a cluster in a container.

    run (the default) starts it with the settings in variables, and in FILE if there is one; health
    checks whether it is healthy; check reports errors in the settings and starts nothing.
    """
    if action == "health":
        return _health(file)
    configured = settings_of(file, os.environ)
    if action == "check":
        _check(configured.settings)
        for name in sorted(configured.settings):
            click.echo(name)
        for text in configured.notes:
            click.echo(text, err=True)
    else:
        _run(configured, debug)
    return 0


def settings_of(file: Path | None, environ: Mapping[str, str]) -> variables.Variables:
    """The settings of the worker, from the variables and the container's memory limit. Raises
    ConfigInvalid or StartupFailed."""
    configured = _variables(file, environ)
    heap = memory.heap(configured.settings.get(variables.HEAP), memory.limit_mb())
    if heap is None:
        return configured
    settings = {**configured.settings, variables.HEAP: heap}
    return variables.Variables(settings, configured.log_environ, configured.notes)


def _variables(file: Path | None, environ: Mapping[str, str]) -> variables.Variables:
    from_file: Mapping[str, str] = {}
    if file is not None:
        from penstock.cli import start  # slow to import, and health checks are frequent

        from_file = start.read_worker_file(file)
    return variables.read(environ, lambda path: Path(path).read_text(), _address, from_file)


def _run(configured: variables.Variables, debug: bool) -> NoReturn:
    # The first process of a container has no default signal handlers: it would ignore signals.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ended_early)
    logs.log_to_stderr(logs.LogSettings.of(configured.log_environ, None, debug))
    log.info("penstock %s in a container, user %d", VERSION, os.getuid())
    machine.demand()
    for text in (*configured.notes, *machine.notes()):
        log.warning("%s", text)
    _check(configured.settings)  # before the wait for Kafka
    log.info("heap of Spark's JVM: %s", configured.settings.get(variables.HEAP, "1g (default)"))
    starting.await_kafka(
        configured.settings["bootstrap.servers"].split(","),
        variables.kafka_timeout_s(os.environ),
        now=time.monotonic,
        pause=threading.Event().wait,
    )
    from penstock.data import arrow

    arrow.keep_pandas_out()  # before anything is imported that uses Arrow
    from penstock.cli import start

    def started(url: str) -> None:
        log.info("REST listens on %s", url)
        if folder := os.environ.get(CONNECTORS):
            starting.Applying(folder, starting.local_url(configured.settings)).start()

    start.distributed(configured.settings, started)
    logging.shutdown()
    os._exit(0)  # everything has stopped; hanging connector code must not block the exit


def _check(settings: Mapping[str, str]) -> None:
    """Raises ConfigInvalid with everything that is wrong with a worker's settings."""
    from penstock.plugins import path
    from penstock.runtime.providers import resolved_worker

    parse_distributed(resolved_worker(settings, path.registry(settings)))


def _health(file: Path | None) -> int:
    """0 or 1, as container engines expect."""
    try:
        url = starting.local_url(_variables(file, os.environ).settings)
    except PenstockError:
        url = starting.DEFAULT_URL  # another command runs here, such as `standalone`
    problem = starting.healthy(url)
    if problem is None:
        return 0
    click.echo(problem, err=True)
    return 1


def _ended_early(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _address() -> str:
    """The container's own address: that of its host name, which engines write into /etc/hosts."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return socket.gethostname()
