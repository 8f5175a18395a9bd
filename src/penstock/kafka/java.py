"""The settings of Java's Kafka clients that ours have, too: their types, and the values that Java
accepts. Names, checks and messages are those of Kafka 4.2.0.

    >>> PRODUCER.parse({"acks": "2", "batch.size": "-1"})
    Traceback (most recent call last):
    ...
    penstock.errors.ConfigInvalid: Invalid value 2 for configuration acks: String must be one of: \
all, -1, 0, 1
    Invalid value -1 for configuration batch.size: Value must be at least 0
"""

from __future__ import annotations

from typing import Final

from penstock.config.checks import at_least, between, checking, one_of, unless_none
from penstock.config.define import BOOLEAN, INT, LONG, STRING, ConfigDef, Key


def _number(name: str, low: int | None = 0, *, wide: bool = False) -> Key[int | None]:
    check = None if low is None else unless_none(at_least(low))
    return Key(name, LONG if wide else INT, default=None, check=check)


def _word(name: str, *words: str, ignore_case: bool = False) -> Key[str | None]:
    return Key(
        name, STRING, default=None, check=unless_none(one_of(*words, ignore_case=ignore_case))
    )


def _bad_gzip_level(level: int | None) -> str | None:
    if level is None or level == -1 or 1 <= level <= 9:
        return None
    return "Value must be between 1 and 9 or equal to -1"


_CONNECTION: Final = (
    _word("client.dns.lookup", "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    _word("security.protocol", "SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", ignore_case=True),
    _number("metadata.max.age.ms", wide=True),
    _number("reconnect.backoff.ms", wide=True),
    _number("reconnect.backoff.max.ms", wide=True),
    _number("retry.backoff.ms", wide=True),
    _number("retry.backoff.max.ms", wide=True),
    _number("connections.max.idle.ms", None, wide=True),
    _number("socket.connection.setup.timeout.ms", None, wide=True),
    _number("send.buffer.bytes", -1),
    _number("receive.buffer.bytes", -1),
    _number("request.timeout.ms"),
    _word("metadata.recovery.strategy", "REBOOTSTRAP", "NONE", ignore_case=True),
    _number("metadata.recovery.rebootstrap.trigger.ms", wide=True),
    Key("enable.metrics.push", BOOLEAN, default=None),
)

CONNECTION: Final = ConfigDef(*_CONNECTION)
"""Settings of every client."""

PRODUCER: Final = ConfigDef(
    *_CONNECTION,
    _word("acks", "all", "-1", "0", "1"),
    _number("linger.ms", wide=True),
    _number("batch.size"),
    _number("buffer.memory", wide=True),
    _number("max.request.size"),
    _number("retries"),
    _number("delivery.timeout.ms"),
    _number("max.in.flight.requests.per.connection", 1),
    _number("transaction.timeout.ms", None),
    Key("enable.idempotence", BOOLEAN, default=None),
    _word("compression.type", "none", "gzip", "snappy", "lz4", "zstd"),
    Key(
        "compression.gzip.level",
        INT,
        default=None,
        check=checking("[1,...,9] or -1", _bad_gzip_level),
    ),
    Key("compression.lz4.level", INT, default=None, check=unless_none(between(1, 17))),
    Key("compression.zstd.level", INT, default=None, check=unless_none(between(-131_072, 22))),
    Key("partitioner.ignore.keys", BOOLEAN, default=None),
)

CONSUMER: Final = ConfigDef(
    *_CONNECTION,
    _word("isolation.level", "read_committed", "read_uncommitted"),
    Key("check.crcs", BOOLEAN, default=None),
    Key("allow.auto.create.topics", BOOLEAN, default=None),
    _number("fetch.min.bytes"),
    _number("fetch.max.bytes"),
    _number("max.partition.fetch.bytes"),
    _number("fetch.max.wait.ms"),
)
