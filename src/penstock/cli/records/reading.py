"""A topic's records, from one position to another."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.cli.exits import CommandError, NoAnswer, NotThere, Unusable
from penstock.cli.records.settings import VARIABLE, RecordsSettings, settings_checked
from penstock.clock import Clock
from penstock.errors import StartupFailed
from penstock.kafka import admin, clients

CONNECT_S: Final = 10.0
_POLL_S: Final = 0.2
_MOST: Final = 500  # records at once
_STALLED_MS: Final = 30_000
_ASK_S: Final = 15.0

_AGE: Final = re.compile(r"(\d+)(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FATAL: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)


class From(Enum):
    """What the number of a `Start` means."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    BACK = "so many before the end"
    TIME = "ms since the epoch"


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins, in every partition."""

    kind: From
    number: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets to read in one partition: from `begin` up to, not including, `end`."""

    begin: int
    end: int


def start_of(text: str, now_ms: int) -> Start:
    """The start that `--from` names. Raises Unusable.

    >>> start_of("latest", 0), start_of("-10", 0).number, start_of("2m", 180_000).number
    (Start(kind=<From.LATEST: 'latest'>, number=0), 10, 60000)
    >>> start_of("2023-11-14T22:13:20Z", 0).number
    1700000000000
    """
    word = text.strip().lower()
    if word in (From.EARLIEST.value, From.LATEST.value):
        return Start(From(word))
    if re.fullmatch(r"-?\d+", word):
        number = int(word)
        return Start(From.BACK, -number) if word[0] == "-" else Start(From.OFFSET, number)
    if age := _AGE.fullmatch(word):
        return Start(From.TIME, now_ms - int(age[1]) * _SECONDS[age[2]] * 1000)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Unusable(
            f"--from '{text}' is not a position in a topic.",
            "Write earliest, latest, an offset (42), a number of records before the end (-10), an "
            "age (30s, 15m, 2h, 1d), or a time (2026-01-31T12:00:00Z; without a zone it is UTC).",
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Start(From.TIME, int(moment.timestamp() * 1000))


def connect(settings: RecordsSettings) -> AdminClient:
    """An admin client. Raises NoAnswer when no broker answers."""
    java = settings.java
    try:
        with settings_checked():
            translated = clients.admin(java)
            client, _ = admin.connect(translated.settings, CONNECT_S)
    except StartupFailed as error:
        last = str(error).partition("Last error: ")[2]
        raise NoAnswer(
            f"No Kafka broker answers at {settings.bootstrap} ({settings.origin})."
            + (f" {last}" if last else ""),
            "Set the address of Kafka with --bootstrap-server HOST:PORT, a worker's file "
            f"(--worker FILE), or {VARIABLE}. Set how to connect, such as security.protocol, in "
            "that file, or with --set.",
        ) from error
    return client


def partitions_of(client: AdminClient, topic: str, settings: RecordsSettings) -> list[int]:
    """The topic's partitions. Raises NotThere."""
    topics = client.list_topics(timeout=_ASK_S).topics  # naming the topic could create it
    metadata = topics.get(topic)
    if metadata is None or metadata.error is not None:
        names = [name for name in topics if not name.startswith("__")]
        close = get_close_matches(topic, names, 3, 0.6) or sorted(names)[:5]
        listed = f" There are: {', '.join(close)}." if close else ""
        reason = "" if metadata is None else f" ({metadata.error})"
        raise NotThere(
            f"There is no topic '{topic}' at {settings.bootstrap} ({settings.origin}){reason}."
            + listed,
            "To use another Kafka: --bootstrap-server, --worker FILE or " + VARIABLE + ".",
        )
    return sorted(metadata.partitions)


def chosen(topic: str, partitions: Sequence[int], requested: Sequence[int]) -> list[int]:
    """The requested partitions, by default all. Raises NotThere for one that does not exist."""
    missing = [number for number in requested if number not in partitions]
    if missing:
        raise NotThere(
            f"'{topic}' has no partition {missing[0]} (--partition): it has {len(partitions)}, "
            f"from 0 to {len(partitions) - 1}."
        )
    return sorted(set(requested)) or list(partitions)


def ranges(
    client: AdminClient, topic: str, partitions: Sequence[int], start: Start
) -> dict[int, Range]:
    """What to read of each partition, up to its present end. Raises CommandError."""
    first = _offsets(client, topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    last = _offsets(client, topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    begin = dict(first)
    match start.kind:
        case From.LATEST:
            begin = last
        case From.OFFSET:
            begin = {n: max(first[n], start.number) for n in partitions}
        case From.BACK:
            begin = {n: max(first[n], last[n] - start.number) for n in partitions}
        case From.TIME:
            spec = OffsetSpec.for_timestamp(start.number)
            later = _offsets(client, topic, partitions, spec)
            begin = {n: later[n] if later[n] >= 0 else last[n] for n in partitions}
    return {n: Range(begin[n], last[n]) for n in partitions}


def _offsets(
    client: AdminClient, topic: str, partitions: Sequence[int], spec: OffsetSpec
) -> dict[int, int]:
    requests = {TopicPartition(topic, number): spec for number in partitions}
    try:
        answers = client.list_offsets(requests, request_timeout=_ASK_S)
        return {place.partition: int(row.result().offset) for place, row in answers.items()}
    except KafkaException as error:
        raise CommandError(f"Cannot look up the offsets of '{topic}': {_words(error)}.") from error


def messages(
    settings: RecordsSettings,
    topic: str,
    ranges: dict[int, Range],
    clock: Clock,
    *,
    follow: bool,
) -> Generator[list[Message], None, None]:
    """The records, in order within a partition, in batches of at most 500; an empty batch when
    there is nothing new for a moment. Without `follow`, ends at the end of each range.

    Raises CommandError if Kafka refuses, NoAnswer if expected records do not arrive for 30 s.
    """
    with settings_checked():
        translated = clients.consumer(settings.java)
    config: dict[str, Any] = {
        **settings.client(translated),
        "group.id": "penstock-read",  # librdkafka requires one; nothing joins it
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        "error_cb": lambda error: None,  # repeated connection errors; the stall is reported
    }
    open_ends = {n for n, span in ranges.items() if follow or span.begin < span.end}
    if not open_ends:
        return
    with settings_checked():
        consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, n, ranges[n].begin) for n in sorted(open_ends)])
        moved_ms = clock.now()
        while open_ends:
            batch: list[Message] = []
            first = consumer.poll(_POLL_S)
            # With a time-out, `consume` would wait for all of them.
            received = [] if first is None else [first, *consumer.consume(_MOST - 1, 0)]
            for message in received:
                number, error = message.partition() or 0, message.error()
                if error is None:
                    offset = message.offset() or 0
                    if follow or (number in open_ends and offset < ranges[number].end):
                        batch.append(message)
                    if not follow and offset + 1 >= ranges[number].end:
                        open_ends.discard(number)
                elif error.code() == KafkaError._PARTITION_EOF:
                    if not follow:  # behind it may be markers of transactions, or compacted records
                        open_ends.discard(number)
                elif error.fatal() or error.code() in _FATAL:
                    raise CommandError(f"Cannot read '{topic}': {error.str()}.")
            if received:
                moved_ms = clock.now()
            elif not follow and clock.now() - moved_ms > _STALLED_MS:
                raise NoAnswer(
                    f"Kafka has sent nothing of '{topic}' for {_STALLED_MS // 1000} s, though "
                    f"partition {min(open_ends)} continues to offset {ranges[min(open_ends)].end}.",
                    f"Is the broker at {settings.bootstrap} still up?",
                )
            yield batch
    finally:
        consumer.close()


def _words(error: KafkaException) -> str:
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
