"""The commands `read` and `write`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.cli import show
from penstock.cli.exits import CommandError, Exit, Unusable
from penstock.cli.records.settings import FORMATS, JSON, LINE
from penstock.cli.session import CommandSession, common, connector_names, pass_session

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from penstock.cli.records.settings import RecordsSettings

F = TypeVar("F", bound=Callable[..., Any])

_CREATED_MS: Final = 30_000  # until the broker knows a topic that it has created


def _options(command: F) -> F:
    """Adds the options of both commands: where Kafka is, and which converters apply."""
    for option in reversed(
        (
            click.option(
                "--bootstrap-server",
                "bootstrap",
                metavar="HOST:PORT",
                help="Kafka; or PENSTOCK_BOOTSTRAP_SERVERS (localhost:9092).",
            ),
            click.option(
                "--connector",
                metavar="NAME",
                shell_complete=connector_names,
                help="Use the converters of this connector, and its overrides.",
            ),
            click.option(
                "--worker",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help="Use the converters and the Kafka of this worker's settings.",
            ),
            click.option(
                "--key-converter", metavar="CLASS", help="A converter for keys, as in settings."
            ),
            click.option("--value-converter", metavar="CLASS", help="A converter for values."),
            click.option("--header-converter", metavar="CLASS", help="A converter for headers."),
            click.option(
                "--set",
                "pairs",
                multiple=True,
                metavar="KEY=VALUE",
                help="A setting of a converter (value.converter.…) or of the Kafka client.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help="earliest, latest, an offset (42), before the end (-10), an age (15m), or a time.",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition; repeatable.",
)
@click.option("--count", type=click.IntRange(min=1), help="The maximum number of records.")
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option("--headers", is_flag=True, help="Show headers, too; JSON always has them.")
@click.option("--trace", is_flag=True, help="Show the stack traces of dead letters.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=LINE,
    show_default=True,
    help="Text, JSON for `write`, or the bytes of values.",
)
@_options
@common
@pass_session
def read(
    session: CommandSession,
    /,
    topic: str,
    start: str,
    partitions: tuple[int, ...],
    count: int | None,
    follow: bool,
    headers: bool,
    trace: bool,
    form: str,
    **choices: Any,
) -> int:
    """Show the records of a topic.

    Ends at the topic's present end. Dead letters are shown with the reason in their headers.
    Keys and values are converted as the options say; without a converter JSON is shown as JSON,
    text as text, other bytes with escapes, and a note on standard error says which.

    Exits with 1 if a converter could not read a record.
    """
    from penstock.cli.records import reading
    from penstock.cli.records.printing import Printer

    begin = reading.start_of(start, session.clock.now())
    form = JSON if session.json else form
    settings = _gathered(session, "consumer", choices)
    client = reading.connect(settings)
    all_partitions = reading.partitions_of(client, topic, settings)
    ranges = reading.ranges(client, topic, reading.chosen(topic, all_partitions, partitions), begin)
    printer = Printer(settings, form, headers=headers, trace=trace)
    remaining = count
    batches = reading.messages(settings, topic, ranges, session.clock, follow=follow)
    try:
        with contextlib.closing(batches):
            for batch in batches:
                shown = batch if remaining is None else batch[:remaining]
                printer.print(shown)
                if remaining is not None:
                    remaining -= len(shown)
                    if not remaining:
                        break
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    return printer.end(topic)


@click.command()
@click.argument("topic")
@click.argument("file", default="-", type=click.Path(allow_dash=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=LINE,
    show_default=True,
    help="Each line is a value, what `read --format json` prints, or a value's bytes.",
)
@click.option("--key-separator", metavar="TEXT", help="What separates a key and its value.")
@click.option("--partition", type=click.IntRange(min=0), help="By default chosen by the key.")
@click.option("--create", is_flag=True, help="Create the topic if it does not exist.")
@_options
@common
@pass_session
def write(
    session: CommandSession,
    /,
    topic: str,
    file: str,
    form: str,
    key_separator: str | None,
    partition: int | None,
    create: bool,
    **choices: Any,
) -> None:
    """Write the lines of FILE into a topic.

    FILE is by default standard input. A line is a value, as the converter expects it: a string for
    the StringConverter, otherwise JSON; without a converter, its bytes. `--format json` accepts
    what `read --format json` prints: key, value, headers and timestamp; its topic, partition and
    offset are ignored.

    Stops at the first line that cannot be written; those before it are written.
    """
    from penstock.cli.records import reading
    from penstock.cli.records.writing import Lines, Writer

    form = JSON if session.json else form
    if key_separator == "" or (key_separator and form != LINE):
        raise Unusable(
            "--key-separator requires --format line, and must not be empty.",
            "In JSON the key is a member of the line.",
        )
    settings = _gathered(session, "producer", choices)
    client = reading.connect(settings)
    if create:
        _create(session, client, topic)
    all_partitions = reading.partitions_of(client, topic, settings)
    reading.chosen(topic, all_partitions, () if partition is None else (partition,))
    writer = Writer(settings, topic, partition)
    try:
        Lines(settings, topic, form, key_separator).write(file, writer)
    finally:
        writer.close()
    plural = "" if writer.stored == 1 else "s"
    show.note(f"{writer.stored} record{plural} written to '{topic}'.")


def _gathered(session: CommandSession, client: str, choices: dict[str, Any]) -> RecordsSettings:
    from penstock.cli.records import settings

    options = settings.ConverterOptions(
        choices["bootstrap"],
        choices["connector"],
        choices["worker"],
        choices["pairs"],
        {side: choices[f"{side}_converter"] for side in settings.SIDES},
    )
    return settings.gather(session, options, client)


def _create(session: CommandSession, client: AdminClient, topic: str) -> None:
    """Creates the topic with the broker's defaults if it does not exist; returns when the broker
    knows it. Raises CommandError."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    try:
        client.create_topics([NewTopic(topic, -1, -1)], operation_timeout=30)[topic].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        raise CommandError(f"Cannot create '{topic}': {error.args[0].str()}.") from error
    deadline = session.clock.now() + _CREATED_MS
    while session.clock.now() < deadline:
        metadata = client.list_topics(timeout=_CREATED_MS / 1000).topics.get(topic)
        if metadata is not None and metadata.error is None and metadata.partitions:
            return
        session.pause(0.1)
