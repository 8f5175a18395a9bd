"""The command `penstock`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

import click

from penstock import KAFKA_VERSION, VERSION, jars
from penstock.errors import PenstockError, StartupFailed

_DEBUG = click.option("--debug", is_flag=True, help="Show more, and stack traces of errors.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message=f"penstock %(version)s (Kafka Connect {KAFKA_VERSION})")
def cli() -> None:
    """Kafka Connect's distributed mode in Python, its data pipeline on Spark."""


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@_DEBUG
def distributed(file: Path, debug: bool) -> None:
    """Run one worker of a cluster with the settings in FILE, until Ctrl-C or SIGTERM."""
    _log_to_stderr(debug)
    from penstock import run

    run.distributed(run.read_worker_file(file), lambda url: logging.info("REST listens on %s", url))
    logging.shutdown()
    os._exit(0)  # everything has ended in order; code of connectors that hangs may not hold us


@cli.command()
@click.option("--port", default=9092, show_default=True, help="Where clients connect.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where the broker keeps its data; by default in the penstock home.",
)
@_DEBUG
def broker(port: int, data: Path | None, debug: bool) -> None:
    """Run an embedded Kafka broker on loopback, until Ctrl-C."""
    from penstock.kafka.broker import Broker

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end the broker in order
    signal.signal(signal.SIGINT, signal.default_int_handler)
    embedded = Broker(data or jars.home() / "broker", port=port, say=click.echo)
    try:
        embedded.start()
        click.echo(f"Kafka {KAFKA_VERSION} listens on {embedded.bootstrap}; Ctrl-C ends it.")
        code = embedded.wait()
    except KeyboardInterrupt:
        return
    finally:
        embedded.stop()
    raise StartupFailed(f"Kafka ended by itself with exit code {code}; see {embedded.folder}.")


@cli.command("jars")
@click.argument("sets", nargs=-1, type=click.Choice(jars.SETS))
@_DEBUG
def fetch_jars(sets: tuple[str, ...], debug: bool) -> None:
    """Fetch sets of Java archives now rather than when they are first needed; all by default."""
    for which in sets or jars.SETS:
        click.echo(f"{which}: {jars.folder(which, click.echo)}")


@cli.command()
@click.option(
    "--file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="A file of yours to move; by default a sample is made.",
)
@click.option("--keep", is_flag=True, help="Leave the cluster running until Ctrl-C.")
@_DEBUG
def demo(file: Path | None, keep: bool, debug: bool) -> None:
    """Move a real file through a topic into another file, on a cluster of one worker."""
    from penstock.demo import run_demo

    sys.exit(run_demo(file, keep, jars.home(), debug))


def main() -> None:
    """The entry point: one place turns errors into messages and exit codes."""
    debug = "--debug" in sys.argv
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except PenstockError as error:
        if debug:
            raise
        click.echo(f"penstock: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        if debug:
            raise
        where = f" ({error.filename})" if error.filename else ""
        click.echo(f"penstock: {error.strerror or error}{where}", err=True)
        sys.exit(1)
    finally:
        logging.shutdown()


def _log_to_stderr(debug: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.INFO,
        format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)",
        stream=sys.stderr,
    )
    for name in ("py4j", "kafka", "httpx", "httpcore", "asyncio", "uvicorn"):
        logging.getLogger(name).setLevel(logging.WARNING)
