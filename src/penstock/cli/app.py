"""The command `penstock`: its commands by section, and the one place that turns errors into
messages and exit codes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Final

import click

from penstock import KAFKA_VERSION, VERSION
from penstock.cli import connectors, control, explain, plugins, previews, running, trace, views
from penstock.cli.apply import apply
from penstock.cli.container import container
from penstock.cli.exits import CommandError, Exit
from penstock.cli.records.commands import read, write
from penstock.cli.session import CommandSession, common
from penstock.cli.show import note
from penstock.config.redaction import redacted
from penstock.errors import PenstockError

SECTIONS: Final[Sequence[tuple[str, Sequence[click.Command]]]] = (
    (
        "Run",
        (
            running.distributed,
            running.standalone,
            container,
            running.broker,
            running.demo,
            running.fetch_jars,
        ),
    ),
    (
        "Connector configurations",
        (
            apply,
            connectors.load,
            connectors.unload,
            connectors.create,
            connectors.update,
            connectors.patch,
            connectors.delete,
            connectors.config,
            connectors.validate,
            connectors.diff,
            previews.preview,
        ),
    ),
    (
        "Running connectors",
        (
            control.status,
            control.wait,
            control.pause,
            control.resume,
            control.stop,
            control.restart,
            views.offsets,
            views.topics,
            trace.trace,
        ),
    ),
    ("Records", (read, write)),
    (
        "The cluster",
        (views.listing, views.health, views.logs, views.clusters, views.completion),
    ),
    ("Plugins", (explain.explain, plugins.plugins)),
)


class _Sections(click.Group):
    """A group that lists its commands by section, in the order of the table."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(len(name) for name in self.commands)
        for title, commands in SECTIONS:
            with formatter.section(title):
                room = formatter.width - 6 - widest
                formatter.write_dl(
                    [(str(command.name), command.get_short_help_str(room)) for command in commands],
                    col_max=widest,
                )


@click.group(
    cls=_Sections,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes, the configuration file and examples: docs/cli.md.",
)
@click.version_option(VERSION, message=f"penstock %(version)s (Kafka Connect {KAFKA_VERSION})")
@common
def cli() -> None:
    """Kafka Connect's distributed mode in Python, its data pipeline on Spark."""


for _, _commands in SECTIONS:
    for _command in _commands:
        cli.add_command(_command)


def main() -> None:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str], session: CommandSession | None = None) -> int:
    """Runs the command line and returns its exit code. Errors go to standard error."""
    session = session or CommandSession()
    debug = "--debug" in args
    try:
        result = cli.main(list(args), prog_name="penstock", standalone_mode=False, obj=session)
        return result if isinstance(result, int) else Exit.DONE
    except (click.exceptions.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PenstockError as error:
        if debug:
            raise
        _print_error(error, session)
        return error.exit_code
    except OSError as error:
        if debug:
            raise
        suffix = f" ({error.filename})" if error.filename else ""
        note(f"penstock: {error.strerror or error}{suffix}")
        return Exit.DIFFERENT
    finally:
        logging.shutdown()


def _print_error(error: PenstockError, session: CommandSession) -> None:
    body: bytes = getattr(error, "body", b"")  # the worker's response, for programs
    if session.json and body:
        click.echo(body.rstrip(b"\n"))
    note(f"penstock: {redacted(str(error))}")
    if isinstance(error, CommandError) and error.advice:
        note(error.advice)
