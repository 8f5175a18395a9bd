"""Java client settings, as users write them, translated once for each client we use.

Three clients, three spellings: librdkafka (producers, consumers, admin), kafka-python (membership
of the worker group) and Java's own (sink tasks' consumers, which take them as they are). `java` is
the table of all names. Values are checked as in Java; what a client does not accept becomes the
nearest value that it accepts. Settings without a counterpart are left out and listed in
`Translated.ignored`, so that they can be logged once.
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
from penstock.kafka.java import MAX_INT, Setting
from penstock.kafka.limits import ProducerLimits

__all__ = ["ClientSettings", "Member", "Translated", "admin", "consumer", "member", "producer"]


@dataclass(frozen=True, slots=True)
class Translated:
    """Settings in the client's own spelling, and the names without a counterpart."""

    settings: ClientSettings
    ignored: tuple[str, ...] = ()


_SECURITY: Final = ("security.protocol", "sasl.", "ssl.")

_LEVELS: Final = {
    "compression.gzip.level": ("gzip", -1, 9),
    "compression.lz4.level": ("lz4", 0, 12),
    "compression.zstd.level": ("zstd", 1, 12),
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


def limits(java: Mapping[str, str]) -> ProducerLimits | None:
    """The limits to apply to each record; None if librdkafka's suffice. Raises ConfigInvalid."""
    numbers = _numbers(_parsed(javas.PRODUCER, java))
    most = numbers.get("max.request.size", MAX_INT)
    memory = numbers.get("buffer.memory", MAX_INT)
    if most < javas.PRODUCER_TABLE["max.request.size"].low or memory < most:
        return ProducerLimits(most, memory)
    return None


def producer(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka producer. Keys are partitioned as in Java (murmur2)."""
    parsed = _parsed(javas.PRODUCER, java)
    out = _common(java, parsed, javas.PRODUCER_TABLE)
    settings = out.settings
    ignored = [name for name in out.ignored if name not in _OF_PRODUCER]
    settings["partitioner"] = _partitioner(java, parsed)
    numbers = _numbers(parsed)
    if (memory := numbers.get("buffer.memory")) is not None:
        settings["queue.buffering.max.kbytes"] = max(1, min(MAX_INT, -(-memory // 1024)))
    for name, (kind, low, high) in _LEVELS.items():
        level = numbers.get(name)
        if level is not None and settings.get("compression.type") == kind:
            settings["compression.level"] = max(low, min(high, level))
    if numbers.get("delivery.timeout.ms", MAX_INT) <= numbers.get("linger.ms", 0):
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
    out = _common(java, parsed, javas.CONSUMER_TABLE)
    most = out.settings.get("fetch.max.bytes")
    if isinstance(most, int):  # librdkafka requires that the largest message fits
        out.settings["message.max.bytes"] = min(1_000_000, most)
    out.settings["enable.auto.commit"] = False
    out.settings["enable.auto.offset.store"] = False
    return out


def admin(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka admin client."""
    return _common(java, _parsed(javas.CONNECTION, java), javas.CONNECTION_TABLE)


def member(java: Mapping[str, str]) -> Member:
    """Connection settings for kafka-python, for the worker's group membership."""
    parsed = _parsed(javas.CONNECTION, java)
    out: dict[str, object] = {
        "bootstrap_servers": [server.strip() for server in java["bootstrap.servers"].split(",")],
        "reconnect_backoff_max_ms": _most_ms(parsed, "reconnect.backoff"),
    }
    for name, setting in javas.CONNECTION_TABLE.items():
        if setting.kafka_python is not None and name in parsed:
            out[setting.kafka_python] = parsed[name]
    return secured(java, out)


def _parsed(definition: ConfigDef, java: Mapping[str, str]) -> dict[str, object]:
    """The values of the declared settings that are set. Raises ConfigInvalid in Java's words."""
    config: Config = definition.parse(dict(java))
    values = {key.name: config[key] for key in definition.keys}
    return {name: value for name, value in values.items() if value is not None}


def _numbers(parsed: Mapping[str, object]) -> dict[str, int]:
    return {name: value for name, value in parsed.items() if type(value) is int}


def _common(
    java: Mapping[str, str], parsed: Mapping[str, object], table: Mapping[str, Setting]
) -> Translated:
    settings: ClientSettings = {}
    ignored: list[str] = []
    for name, text in java.items():
        setting = table.get(name)
        if setting is not None and setting.librdkafka is not None:
            settings[setting.librdkafka] = (
                text if setting.is_free_text else setting.for_librdkafka(parsed[name])
            )
        elif not name.startswith(_SECURITY):
            ignored.append(name)
    for kind in ("reconnect.backoff", "retry.backoff"):
        if kind == "reconnect.backoff" or f"{kind}.ms" in settings:
            longest = f"{kind}.max.ms"
            settings[longest] = table[longest].nearest(_most_ms(parsed, kind))
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
