"""Java client settings, as users write them, translated once for each client we use.

Three clients, three spellings: librdkafka (producers, consumers, admin), kafka-python (membership
of the worker group) and Java's own (sink tasks' consumers, which take them as they are). Settings
without a counterpart are left out and listed in `Translated.ignored`, so that they can be logged
once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConfigInvalid

ClientSettings = dict[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Translated:
    """Settings in the client's own spelling, and the names without a counterpart."""

    settings: ClientSettings
    ignored: tuple[str, ...] = ()


# Names that mean the same in Java and in librdkafka.
_SAME: Final = frozenset(
    """
    bootstrap.servers client.id client.dns.lookup security.protocol sasl.mechanism
    sasl.kerberos.service.name metadata.max.age.ms reconnect.backoff.ms
    reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms connections.max.idle.ms
    socket.connection.setup.timeout.ms ssl.endpoint.identification.algorithm
    ssl.key.password enable.metrics.push metadata.recovery.strategy
    metadata.recovery.rebootstrap.trigger.ms
    """.split()
)
_SAME_PRODUCER: Final = frozenset(
    """
    acks linger.ms batch.size compression.type retries enable.idempotence transactional.id
    transaction.timeout.ms delivery.timeout.ms request.timeout.ms
    max.in.flight.requests.per.connection
    """.split()
)
_SAME_CONSUMER: Final = frozenset(
    """
    group.id group.instance.id session.timeout.ms heartbeat.interval.ms
    max.poll.interval.ms auto.offset.reset isolation.level check.crcs client.rack
    fetch.min.bytes fetch.max.bytes max.partition.fetch.bytes allow.auto.create.topics
    """.split()
)
_RENAMED: Final[Mapping[str, str]] = {
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.cipher.suites": "ssl.cipher.suites",
}
_BACKOFF_MAX_MS: Final = 1_000
"""Java's default of `reconnect.backoff.max.ms`. Our clients' own are 10 and 30 s, which
would delay reconnecting after a broker is back."""

_PRODUCER_ONLY: Final = frozenset({"max.request.size"})
_CONSUMER_ONLY: Final = frozenset({"fetch.max.wait.ms"})
_LOGIN: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def producer(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka producer. Keys are partitioned as in Java (murmur2)."""
    rest = {name: text for name, text in java.items() if name != "buffer.memory"}
    out = _common(rest, _SAME_PRODUCER, not_for=_CONSUMER_ONLY)
    out.settings["partitioner"] = "murmur2_random"
    if "buffer.memory" in java:
        kbytes = max(1, _number("buffer.memory", java["buffer.memory"]) // 1024)
        out.settings["queue.buffering.max.kbytes"] = kbytes
    if _number("linger.ms", str(out.settings.get("linger.ms", 0))) > 900_000:
        out.settings["linger.ms"] = 900_000  # librdkafka's maximum
    return out


def consumer(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka consumer without automatic commits."""
    out = _common(java, _SAME_CONSUMER, not_for=_PRODUCER_ONLY)
    out.settings["enable.auto.commit"] = False
    out.settings["enable.auto.offset.store"] = False
    return out


def admin(java: Mapping[str, str]) -> Translated:
    """Settings for a librdkafka admin client."""
    return _common(java, frozenset(), not_for=_PRODUCER_ONLY | _CONSUMER_ONLY)


def member(java: Mapping[str, str]) -> dict[str, object]:
    """Connection settings in kafka-python's spelling, for the worker's group membership."""
    librdkafka = _common(java, frozenset(), not_for=_PRODUCER_ONLY | _CONSUMER_ONLY).settings
    out: dict[str, object] = {
        "bootstrap_servers": [server.strip() for server in java["bootstrap.servers"].split(",")],
        "reconnect_backoff_max_ms": _backoff_max_ms(java),
    }
    for name, key in (
        ("security.protocol", "security_protocol"),
        ("sasl.mechanism", "sasl_mechanism"),
        ("sasl.username", "sasl_plain_username"),
        ("sasl.password", "sasl_plain_password"),
        ("ssl.ca.location", "ssl_cafile"),
        ("ssl.certificate.location", "ssl_certfile"),
        ("ssl.key.location", "ssl_keyfile"),
        ("ssl.key.password", "ssl_password"),
    ):
        if name in librdkafka:
            out[key] = librdkafka[name]
    if java.get("ssl.endpoint.identification.algorithm") == "":
        out["ssl_check_hostname"] = False
    for name in ("request.timeout.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"):
        if name in java:
            out[name.replace(".", "_")] = _number(name, java[name])
    return out


def _common(
    java: Mapping[str, str], same: frozenset[str], *, not_for: frozenset[str]
) -> Translated:
    settings: ClientSettings = {"reconnect.backoff.max.ms": _backoff_max_ms(java)}
    ignored: list[str] = []
    for name, text in java.items():
        if name in _SAME or name in same:
            settings[name] = text
        elif name in _RENAMED and name not in not_for:
            settings[_RENAMED[name]] = text
        elif not name.startswith(("sasl.", "ssl.")):
            ignored.append(name)
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    settings.update(_login(java))
    settings.update(_stores(java))
    return Translated(settings, tuple(ignored))


def _backoff_max_ms(java: Mapping[str, str]) -> int:
    """The default if not given, and at least the first backoff."""
    least = _number("reconnect.backoff.ms", java.get("reconnect.backoff.ms", "0"))
    return max(least, _BACKOFF_MAX_MS)


def _login(java: Mapping[str, str]) -> ClientSettings:
    jaas = java.get("sasl.jaas.config")
    if not jaas:
        return {}
    options = {name: re.sub(r"\\(.)", r"\1", text) for name, text in _LOGIN.findall(jaas)}
    if "username" not in options or "password" not in options:
        raise ConfigInvalid(
            [
                "Invalid value [hidden] for configuration sasl.jaas.config: "
                'no username="…" and password="…" in it; only PLAIN and SCRAM logins are '
                "supported by this worker's clients."
            ]
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _stores(java: Mapping[str, str]) -> ClientSettings:
    """Key and trust stores given as files."""
    out: ClientSettings = {}
    trust = java.get("ssl.truststore.location")
    if trust:
        _refuse_jks("ssl.truststore", java, allowed=("PEM",))
        out["ssl.ca.location"] = trust
    keys = java.get("ssl.keystore.location")
    if keys:
        _refuse_jks("ssl.keystore", java, allowed=("PEM", "PKCS12"))
        if java.get("ssl.keystore.type", "JKS").upper() == "PKCS12":
            out["ssl.keystore.location"] = keys
            if "ssl.keystore.password" in java:
                out["ssl.keystore.password"] = java["ssl.keystore.password"]
        else:
            out["ssl.certificate.location"] = out["ssl.key.location"] = keys
    return out


def _refuse_jks(store: str, java: Mapping[str, str], *, allowed: tuple[str, ...]) -> None:
    kind = java.get(f"{store}.type", "JKS").upper()
    if kind not in allowed:
        raise ConfigInvalid(
            [
                f"Invalid value {kind} for configuration {store}.type: this worker's clients read "
                f"{' or '.join(allowed)} stores; convert the file and set {store}.type."
            ]
        )


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigInvalid(
            [f"Invalid value {text} for configuration {name}: Not a number of type INT"]
        ) from None
