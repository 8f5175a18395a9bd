"""The settings of Java's Kafka clients that ours have, too: one table with their types, the values
that Java accepts, and their names for librdkafka and kafka-python. Names, checks and messages are
those of Kafka 4.3.1, and of 4.4.0 what is new there.

    >>> PRODUCER.parse({"acks": "2", "batch.size": "-1"})
    Traceback (most recent call last):
    ...
    penstock.errors.ConfigInvalid: Invalid value 2 for configuration acks: String must be one of: \
all, -1, 0, 1
    Invalid value -1 for configuration batch.size: Value must be at least 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.config.checks import at_least, between, checking, one_of, unless_none
from penstock.config.define import BOOLEAN, INT, LONG, STRING, ConfigDef, Key

MAX_INT: Final = 2**31 - 1
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `key`: as Java declares it. `librdkafka`, `kafka_python`: its name there, None
    if it has no counterpart of the same meaning. `low`, `high`: the numbers that librdkafka
    accepts."""

    key: Key[Any]
    librdkafka: str | None = None
    low: int = 0
    high: int = MAX_INT
    kafka_python: str | None = None

    def nearest(self, value: int) -> int:
        """The number that librdkafka accepts in place of this one."""
        return max(self.low, min(self.high, value))

    @property
    def is_free_text(self) -> bool:
        """Whether it is passed on as it is written."""
        return self.key.kind is STRING and self.key.check is None

    def for_librdkafka(self, value: object) -> str | int | bool:
        """A parsed value in librdkafka's words."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self.nearest(value)
        return str(value).strip().lower()


def _number(
    name: str,
    least: int | None = 0,
    *,
    wide: bool = False,
    to: tuple[int, int] | None = None,
    named: str | None = None,
    python: str | None = None,
) -> Setting:
    """A number, in Java from `least`. `to`: the range of librdkafka, where it is `named` so, by
    default the same."""
    check = None if least is None else unless_none(at_least(least))
    key = Key(name, LONG if wide else INT, default=None, check=check)
    if to is None:
        return Setting(key, kafka_python=python)
    return Setting(key, named or name, *to, kafka_python=python)


def _word(name: str, *words: str, ignore_case: bool = False, same: bool = True) -> Setting:
    """One of some words; librdkafka's are the `same`, in lower case."""
    check = unless_none(one_of(*words, ignore_case=ignore_case))
    return Setting(Key(name, STRING, default=None, check=check), name if same else None)


def _flag(name: str, *, same: bool = True) -> Setting:
    return Setting(Key(name, BOOLEAN, default=None), name if same else None)


def _text(name: str) -> Setting:
    return Setting(Key(name, STRING, default=None), name)


def _bad_gzip_level(level: int | None) -> str | None:
    if level is None or level == -1 or 1 <= level <= 9:
        return None
    return "Value must be between 1 and 9 or equal to -1"


_CONNECTION: Final = (
    _text("bootstrap.servers"),
    _text("client.id"),
    _word("client.dns.lookup", "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    _word(
        "security.protocol",
        "SASL_SSL",
        "PLAINTEXT",
        "SSL",
        "SASL_PLAINTEXT",
        ignore_case=True,
        same=False,  # see `connection`
    ),
    _number("metadata.max.age.ms", wide=True, to=(1, _DAY_MS)),
    _number("reconnect.backoff.ms", wide=True, to=(0, _HOUR_MS), python="reconnect_backoff_ms"),
    _number("reconnect.backoff.max.ms", wide=True, to=(0, _HOUR_MS)),
    _number("retry.backoff.ms", wide=True, to=(1, 300_000)),
    _number("retry.backoff.max.ms", wide=True, to=(1, 300_000)),
    _number("connections.max.idle.ms", None, wide=True, to=(1, MAX_INT)),
    _number("socket.connection.setup.timeout.ms", None, wide=True, to=(1_000, MAX_INT)),
    _number("send.buffer.bytes", -1, to=(0, 100_000_000), named="socket.send.buffer.bytes"),
    _number("receive.buffer.bytes", -1, to=(0, 100_000_000), named="socket.receive.buffer.bytes"),
    _number("request.timeout.ms", python="request_timeout_ms"),
    _word("metadata.recovery.strategy", "REBOOTSTRAP", "NONE", ignore_case=True),
    _number("metadata.recovery.rebootstrap.trigger.ms", wide=True, to=(0, MAX_INT)),
    _flag("metadata.cluster.check.enable", same=False),
    _number("bootstrap.resolve.timeout.ms", wide=True),
    _flag("enable.metrics.push"),
)
_PRODUCER: Final = (
    _text("transactional.id"),
    _word("acks", "all", "-1", "0", "1"),
    _number("linger.ms", wide=True, to=(0, 900_000)),
    _number("batch.size", to=(1, MAX_INT)),
    _number("buffer.memory", wide=True),  # librdkafka counts kilobytes
    # Smaller limits are applied to each record: see `Limits`.
    _number("max.request.size", to=(1_000, 1_000_000_000), named="message.max.bytes"),
    _number("retries", to=(0, MAX_INT)),
    _number("request.timeout.ms", to=(1, 900_000)),
    _number("delivery.timeout.ms", to=(1, MAX_INT)),
    _number("max.in.flight.requests.per.connection", 1, to=(1, 1_000_000)),
    _number("transaction.timeout.ms", None, to=(1_000, MAX_INT)),
    _flag("enable.idempotence"),
    _word("compression.type", "none", "gzip", "snappy", "lz4", "zstd"),
    Setting(
        Key(
            "compression.gzip.level",
            INT,
            default=None,
            check=checking("[1,...,9] or -1", _bad_gzip_level),
        )
    ),
    Setting(Key("compression.lz4.level", INT, default=None, check=unless_none(between(1, 17)))),
    Setting(
        Key("compression.zstd.level", INT, default=None, check=unless_none(between(-131_072, 22)))
    ),
    _flag("partitioner.ignore.keys", same=False),
    _flag("partitioner.rack.aware", same=False),
    _word("buffer.memory.allocation.strategy", "FULL", "INCREMENTAL", ignore_case=True, same=False),
)
_CONSUMER: Final = (
    _text("group.id"),
    _text("client.rack"),
    _word("isolation.level", "read_committed", "read_uncommitted"),
    _flag("check.crcs"),
    _flag("allow.auto.create.topics"),
    _number("fetch.min.bytes", to=(1, 100_000_000)),
    _number("fetch.max.bytes", to=(1_000, 2_147_483_135)),
    _number("max.partition.fetch.bytes", to=(1, 1_000_000_000)),
    _number("fetch.max.wait.ms", to=(0, 300_000), named="fetch.wait.max.ms"),
)


def _table(*parts: Iterable[Setting]) -> Mapping[str, Setting]:
    """Settings by their Java name; later ones replace earlier ones."""
    return {setting.key.name: setting for part in parts for setting in part}


CONNECTION_TABLE: Final = _table(_CONNECTION)
PRODUCER_TABLE: Final = _table(_CONNECTION, _PRODUCER)
CONSUMER_TABLE: Final = _table(_CONNECTION, _CONSUMER)


def _checked(table: Mapping[str, Setting]) -> ConfigDef:
    return ConfigDef(*(setting.key for setting in table.values() if not setting.is_free_text))


CONNECTION: Final = _checked(CONNECTION_TABLE)
"""Settings of every client that are checked."""
PRODUCER: Final = _checked(PRODUCER_TABLE)
CONSUMER: Final = _checked(CONSUMER_TABLE)
