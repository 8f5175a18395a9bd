"""Commands that run workers, a broker, the demo."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import NoReturn

import click

from penstock.errors import StartupFailed
from penstock.host import jars, logs

debug_option = click.option("--debug", is_flag=True, help="Show more, and stack traces of errors.")
log_format_option = click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    help=f"The log format; also ${logs.FORMAT_VARIABLE}.",
)


@click.command(epilog="Settings: penstock explain worker.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@log_format_option
@debug_option
def distributed(file: Path | None, log_format: str | None, debug: bool) -> None:
    """Run a worker of a cluster, with the settings in FILE.

    CONNECT_* variables (CONNECT_GROUP_ID for group.id) override the file, and can replace it.
    The worker runs until Ctrl-C or SIGTERM; a second one kills it.
    """
    _demand_settings(file)
    _log_to_stderr(log_format, debug)
    from penstock.data import arrow

    arrow.keep_pandas_out()  # before anything is imported that uses Arrow
    from penstock.cli import start

    settings = start.worker_settings(file)
    start.distributed(settings, lambda url: logging.info("REST listens on %s", url))
    _end()


@click.command(epilog="Settings: penstock explain standalone.")
@click.argument("worker_file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.argument(
    "connector_files", metavar="[CONNECTOR_FILE]...", nargs=-1, type=click.Path(path_type=Path)
)
@log_format_option
@debug_option
def standalone(
    worker_file: Path | None,
    connector_files: tuple[Path, ...],
    log_format: str | None,
    debug: bool,
) -> None:
    """Run a standalone worker.

    FILE and CONNECT_* variables hold its settings; each CONNECTOR_FILE (JSON or properties) a
    connector to create. The worker runs until Ctrl-C or SIGTERM; a second one kills it.
    """
    _demand_settings(worker_file)
    _log_to_stderr(log_format, debug)
    from penstock.data import arrow

    arrow.keep_pandas_out()  # before anything is imported that uses Arrow
    from penstock.cli import start

    start.standalone(worker_file, connector_files)
    _end()


@click.command()
@click.option("--port", default=9092, show_default=True, help="Where clients connect.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where the broker keeps its data; by default in the penstock home.",
)
@debug_option
def broker(port: int, data: Path | None, debug: bool) -> None:
    """Run an embedded Kafka broker on loopback."""
    from penstock.kafka.broker import Broker

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both stop the broker gracefully
    signal.signal(signal.SIGINT, signal.default_int_handler)
    embedded = Broker(data or jars.home() / "broker", port=port, say=click.echo)
    try:
        embedded.start()
        version = jars.version("broker", "kafka-clients")
        click.echo(f"Kafka {version} listens on {embedded.bootstrap}; Ctrl-C stops it.")
        code = embedded.wait()
    except KeyboardInterrupt:
        return
    finally:
        embedded.stop()
    raise StartupFailed(f"Kafka exited unexpectedly, with exit code {code}; see {embedded.folder}.")


@click.command("jars")
@click.argument("sets", nargs=-1, type=click.Choice(jars.SETS))
@click.option("--all", "every", is_flag=True, help="All sets, which is the default.")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Copy them into this folder, for ${jars.JARS_VARIABLE} on another machine.",
)
@debug_option
def fetch_jars(sets: tuple[str, ...], every: bool, to: Path | None, debug: bool) -> None:
    """Fetch Java archives now, not when first needed.

    By default all SETS: spark for workers, broker for the embedded Kafka, java-host for workers
    with Java plugins, connect for tests. With those for workers and brokers, Java's classes are
    archived, so that these start in half the time.
    """
    chosen = jars.SETS if every or not sets else sets
    for name in chosen:
        folder = jars.folder(name, click.echo) if to is None else jars.export(name, to, click.echo)
        click.echo(f"{name}: {folder}")
    if to is None and "spark" in chosen:
        from penstock.flow.spark import archiving

        click.echo(f"classes of spark: {archiving.make(click.echo)}")
    if to is None and "broker" in chosen:
        from penstock.kafka import broker as embedded

        click.echo(f"classes of broker: {embedded.archive_classes(click.echo)}")


@click.command()
@click.option(
    "--file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="A file to move; by default a generated sample.",
)
@click.option("--keep", is_flag=True, help="Leave the cluster running until Ctrl-C.")
@debug_option
def demo(file: Path | None, keep: bool, debug: bool) -> int:
    """Move a file through Kafka into another file.

    Starts a broker and a worker, and shows the progress in a table.
    """
    from penstock.demo import run_demo

    return run_demo(file, keep, jars.home(), debug)


def _demand_settings(file: Path | None) -> None:
    from penstock.config.worker import from_environment

    if file is None and not from_environment(os.environ):
        raise click.UsageError("Missing argument 'FILE', and there are no CONNECT_* variables.")


def _end() -> NoReturn:
    logging.shutdown()
    os._exit(0)  # everything has stopped; hanging connector code must not block the exit


def _log_to_stderr(format: str | None, debug: bool) -> None:
    logs.log_to_stderr(logs.LogSettings.of(os.environ, format, debug))
