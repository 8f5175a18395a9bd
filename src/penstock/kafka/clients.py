"""Java client settings, as users write them, translated once for each client we use.

Three clients, three spellings: librdkafka (producers, consumers, admin), kafka-python (membership
of the worker group) and Java's own (sink tasks' consumers, which take them as they are). Values are
checked as in Java (`java`). What Java accepts and a client does not becomes the nearest value that
it accepts. Settings without a counterpart are left out and listed in `Translated.ignored`, so that
they can be logged once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.config.define import Config, ConfigDef, invalid
from penstock.errors import ConfigInvalid
from penstock.kafka import java as javas
from penstock.kafka.connection import ClientSettings, connection, secured
from penstock.kafka.group_members import Member
from penstock.kafka.limits import Limits

__all__ = ["ClientSettings", "Member", "Translated", "admin", "consumer", "member", "producer"]


@dataclass(frozen=True, slots=True)
class Translated:
    """Settings in the client's own spelling, and the names without a counterpart."""

    settings: ClientSettings
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Number:
    """librdkafka's name of a number, and the values that it accepts."""

    name: str
    low: int
    high: int

    def nearest(self, value: int) -> int:
        return max(self.low, min(self.high, value))


_MAX_INT: Final = 2**31 - 1
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000

_NUMBERS: Final[Mapping[str, _Number]] = {
    "metadata.max.age.ms": _Number("metadata.max.age.ms", 1, _DAY_MS),
    "reconnect.backoff.ms": _Number("reconnect.backoff.ms", 0, _HOUR_MS),
    "reconnect.backoff.max.ms": _Number("reconnect.backoff.max.ms", 0, _HOUR_MS),
    "retry.backoff.ms": _Number("retry.backoff.ms", 1, 300_000),
    "retry.backoff.max.ms": _Number("retry.backoff.max.ms", 1, 300_000),
    "connections.max.idle.ms": _Number("connections.max.idle.ms", 1, _MAX_INT),
    "socket.connection.setup.timeout.ms": _Number(
        "socket.connection.setup.timeout.ms", 1_000, _MAX_INT
    ),
    "send.buffer.bytes": _Number("socket.send.buffer.bytes", 0, 100_000_000),
    "receive.buffer.bytes": _Number("socket.receive.buffer.bytes", 0, 100_000_000),
    "metadata.recovery.rebootstrap.trigger.ms": _Number(
        "metadata.recovery.rebootstrap.trigger.ms", 0, _MAX_INT
    ),
}
_PRODUCER_NUMBERS: Final[Mapping[str, _Number]] = {
    "linger.ms": _Number("linger.ms", 0, 900_000),
    "batch.size": _Number("batch.size", 1, _MAX_INT),
    # Smaller limits are applied to each record: see `Limits`.
    "max.request.size": _Number("message.max.bytes", 1_000, 1_000_000_000),
    "retries": _Number("retries", 0, _MAX_INT),
    "request.timeout.ms": _Number("request.timeout.ms", 1, 900_000),
    "delivery.timeout.ms": _Number("delivery.timeout.ms", 1, _MAX_INT),
    "max.in.flight.requests.per.connection": _Number(
        "max.in.flight.requests.per.connection", 1, 1_000_000
    ),
    "transaction.timeout.ms": _Number("transaction.timeout.ms", 1_000, _MAX_INT),
}
_CONSUMER_NUMBERS: Final[Mapping[str, _Number]] = {
    "fetch.min.bytes": _Number("fetch.min.bytes", 1, 100_000_000),
    "fetch.max.bytes": _Number("fetch.max.bytes", 1_000, 2_147_483_135),
    "max.partition.fetch.bytes": _Number("max.partition.fetch.bytes", 1, 1_000_000_000),
    "fetch.max.wait.ms": _Number("fetch.wait.max.ms", 0, 300_000),
}
_WORDS: Final = frozenset(
    """
    client.dns.lookup metadata.recovery.strategy isolation.level compression.type acks
    """.split()
)
_SWITCHES: Final = frozenset(
    """
    enable.metrics.push enable.idempotence check.crcs allow.auto.create.topics
    """.split()
)
_TEXTS: Final = frozenset({"bootstrap.servers", "client.id"})
_PRODUCER_TEXTS: Final = frozenset({"transactional.id"})
_CONSUMER_TEXTS: Final = frozenset({"group.id", "client.rack"})
_SECURITY: Final = ("security.protocol", "sasl.", "ssl.")

_LEVELS: Final = {
    f"compression.{kind}.level": (kind, _Number("compression.level", low, high))
    for kind, low, high in (("gzip", -1, 9), ("lz4", 0, 12), ("zstd", 1, 12))
}
"""Java has a compression level for each type; librdkafka has one, at most 12."""

_BACKOFF_MAX_MS: Final = 1_000
"""Java's default of `reconnect.backoff.max.ms` and `retry.backoff.max.ms`. Our clients' own are
longer, which would delay reconnecting after a broker is back."""

_BACKOFF_MS: Final = 100
"""librdkafka's default of `reconnect.backoff.ms`."""

_KAFKAS: Final = "org.apache.kafka.clients.producer."
_PARTITIONERS: Final[Mapping[str, str]] = {
    f"{_KAFKAS}internals.DefaultPartitioner": "murmur2_random",
    f"{_KAFKAS}RoundRobinPartitioner": "random",
    f"{_KAFKAS}UniformStickyPartitioner": "random",
}
"""Java's partitioners, and librdkafka's that distribute records alike: those with a key by its
murmur2 hash, or all of them evenly."""

_IDEMPOTENT_IN_FLIGHT: Final = 5


def limits(java: Mapping[str, str]) -> Limits | None:
    """The limits to apply to each record; None if librdkafka's suffice. Raises ConfigInvalid."""
    numbers = _numbers(_parsed(javas.PRODUCER, java))
    most = numbers.get("max.request.size", _MAX_INT)
    memory = numbers.get("buffer.memory", _MAX_INT)
    if most < _PRODUCER_NUMBERS["max.request.size"].low or memory < most:
        return Limits(most, memory)
    return None


def producer(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka producer. Keys are partitioned as in Java (murmur2)."""
    parsed = _parsed(javas.PRODUCER, java)
    out = _common(java, parsed, _PRODUCER_NUMBERS, _PRODUCER_TEXTS)
    settings = out.settings
    ignored = [name for name in out.ignored if name not in _OF_PRODUCER]
    settings["partitioner"] = _partitioner(java, parsed)
    numbers = _numbers(parsed)
    if (memory := numbers.get("buffer.memory")) is not None:
        settings["queue.buffering.max.kbytes"] = max(1, min(_MAX_INT, -(-memory // 1024)))
    for name, (kind, number) in _LEVELS.items():
        level = numbers.get(name)
        if level is not None and settings.get("compression.type") == kind:
            settings["compression.level"] = number.nearest(level)
    if numbers.get("delivery.timeout.ms", _MAX_INT) <= numbers.get("linger.ms", 0):
        text = "delivery.timeout.ms should be equal to or larger than linger.ms + "
        raise ConfigInvalid([f"{text}request.timeout.ms"])
    if settings.get("enable.idempotence") is True:
        _check_idempotent(parsed)
    return Translated(settings, tuple(ignored))


_OF_PRODUCER: Final = frozenset(
    {"buffer.memory", "partitioner.class", "partitioner.ignore.keys", *_LEVELS}
)


def may_be_idempotent(java: Mapping[str, str]) -> bool:
    """Whether nothing in a producer's settings excludes idempotence. Raises ConfigInvalid."""
    return not _exclusions(_parsed(javas.PRODUCER, java))


def idempotent(settings: Mapping[str, str | int | float | bool]) -> ClientSettings:
    """The settings of a producer (librdkafka's names) that is always idempotent: without those that
    exclude it."""
    out = {**settings, "acks": "all", "enable.idempotence": True}
    if out.get("retries") == 0:
        del out["retries"]
    in_flight = "max.in.flight.requests.per.connection"
    if int(out.get(in_flight, 1)) > _IDEMPOTENT_IN_FLIGHT:
        del out[in_flight]
    return out


def _check_idempotent(parsed: Mapping[str, object]) -> None:
    if problems := _exclusions(parsed):
        raise ConfigInvalid(problems)


def _exclusions(parsed: Mapping[str, object]) -> list[str]:
    """What excludes idempotence, in Java's words."""
    out = []
    if parsed.get("retries") == 0:
        out.append("Must set retries to non-zero when using the idempotent producer.")
    if parsed.get("acks", "all") not in ("all", "-1"):
        out.append(
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot "
            "guarantee idempotence."
        )
    in_flight = parsed.get("max.in.flight.requests.per.connection", 1)
    if isinstance(in_flight, int) and in_flight > _IDEMPOTENT_IN_FLIGHT:
        out.append(
            "Must set max.in.flight.requests.per.connection to at most 5 when using the idempotent "
            "producer."
        )
    return out


def _partitioner(java: Mapping[str, str], parsed: Mapping[str, object]) -> str:
    name = java.get("partitioner.class", "").strip()
    if name and name not in _PARTITIONERS:
        text = (
            "this partitioner is a Java class, which penstock does not run; records would go to "
            "other partitions. Remove the setting, or use one of " + ", ".join(_PARTITIONERS)
        )
        raise ConfigInvalid([invalid("partitioner.class", name, text)])
    if name:
        return _PARTITIONERS[name]
    return "random" if parsed.get("partitioner.ignore.keys") else "murmur2_random"


def consumer(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka consumer that is not a member of its group, without automatic
    commits."""
    parsed = _parsed(javas.CONSUMER, java)
    out = _common(java, parsed, _CONSUMER_NUMBERS, _CONSUMER_TEXTS)
    most = out.settings.get("fetch.max.bytes")
    if isinstance(most, int):  # librdkafka requires that the largest message fits
        out.settings["message.max.bytes"] = min(1_000_000, most)
    out.settings["enable.auto.commit"] = False
    out.settings["enable.auto.offset.store"] = False
    return out


def admin(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka admin client."""
    return _common(java, _parsed(javas.CONNECTION, java), {}, frozenset())


def member(java: Mapping[str, str]) -> Member:
    """Connection settings for kafka-python, for the worker's group membership."""
    parsed = _parsed(javas.CONNECTION, java)
    out: dict[str, object] = {
        "bootstrap_servers": [server.strip() for server in java["bootstrap.servers"].split(",")],
        "reconnect_backoff_max_ms": _most_ms(parsed, "reconnect.backoff"),
    }
    for name in ("request.timeout.ms", "reconnect.backoff.ms"):
        if name in parsed:
            out[name.replace(".", "_")] = parsed[name]
    return secured(java, out)


def _parsed(definition: ConfigDef, java: Mapping[str, str]) -> dict[str, object]:
    """The values of the declared settings that are set. Raises ConfigInvalid in Java's words."""
    config: Config = definition.parse(dict(java))
    values = {key.name: config[key] for key in definition.keys}
    return {name: value for name, value in values.items() if value is not None}


def _numbers(parsed: Mapping[str, object]) -> dict[str, int]:
    return {name: value for name, value in parsed.items() if type(value) is int}


def _common(
    java: Mapping[str, str],
    parsed: Mapping[str, object],
    own: Mapping[str, _Number],
    own_texts: frozenset[str],
) -> Translated:
    settings: ClientSettings = {}
    ignored: list[str] = []
    numbers = {**_NUMBERS, **own}
    for name, text in java.items():
        value = parsed.get(name)
        if isinstance(value, int) and name in numbers:
            settings[numbers[name].name] = numbers[name].nearest(value)
        elif isinstance(value, str) and name in _WORDS:
            settings[name] = value.strip().lower()
        elif isinstance(value, bool) and name in _SWITCHES:
            settings[name] = value
        elif name in _TEXTS or name in own_texts:
            settings[name] = text
        elif not name.startswith(_SECURITY):
            ignored.append(name)
    for kind in ("reconnect.backoff", "retry.backoff"):
        if kind == "reconnect.backoff" or f"{kind}.ms" in settings:
            settings[f"{kind}.max.ms"] = _NUMBERS[f"{kind}.max.ms"].nearest(_most_ms(parsed, kind))
    most = int(settings["reconnect.backoff.max.ms"])
    if most < _BACKOFF_MS:
        settings.setdefault("reconnect.backoff.ms", most)
    idle = parsed.get("connections.max.idle.ms")
    if isinstance(idle, int) and idle < 0:
        settings["connections.max.idle.ms"] = 0  # never
    settings.update(connection(java))
    return Translated(settings, tuple(ignored))


def _most_ms(parsed: Mapping[str, object], kind: str) -> int:
    """The longest backoff: the default if not given, and at least the first one."""
    numbers = _numbers(parsed)
    return max(numbers.get(f"{kind}.ms", 0), numbers.get(f"{kind}.max.ms", _BACKOFF_MAX_MS))
