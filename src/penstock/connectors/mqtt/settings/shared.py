"""Settings common to all MQTT connectors, in addition to those of the connectors they replace."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.api import ConfigInvalid, Extra
from penstock.api.settings import (
    LOW,
    MEDIUM,
    Check,
    Config,
    Group,
    Secret,
    checking,
    invalid,
)
from penstock.api.tls import TlsSettings, client_context
from penstock.connectors.mqtt.client.errors import renamed
from penstock.connectors.mqtt.client.options import Names, Options, Server, Will, server_of
from penstock.connectors.mqtt.client.topics import filter_problem, topic_problem

MQTT: Final = Extra("mqtt", "MQTT connectors", ("paho",))

V311: Final = "3.1.1"
V5: Final = "5"

_SESSION_S: Final = 2**32 - 1


def _problem_of(problem: Callable[[str], str | None]) -> Callable[[str | None], str | None]:
    def check(value: str | None) -> str | None:
        return problem(value) if value else None

    return check


A_TOPIC: Final[Check] = checking("an MQTT topic without wildcards", _problem_of(topic_problem))

# fmt: off
CONNECTION_KEYS: Final = Group("penstock", importance=LOW)
VERSION: Final = CONNECTION_KEYS.choice("penstock.mqtt.version", V311, (V311, V5),
    "The version of MQTT: 3.1.1, as the JVM connectors use, or 5, in which message properties "
    "can be record headers.", importance=MEDIUM)
RECEIVE_MAXIMUM: Final = CONNECTION_KEYS.number("penstock.mqtt.receive.maximum", 5_000,
    "Maximum number of unacknowledged messages of QoS 1 and 2. A source sends it to the broker "
    "with MQTT 5; earlier versions have only the broker's limit (mosquitto: "
    "max_inflight_messages, 20). A sink sends no more than this and the broker's limit.",
    at_least=1, at_most=65_535, order=3)
SESSION_EXPIRY: Final = CONNECTION_KEYS.long("penstock.mqtt.session.expiry.seconds", _SESSION_S,
    "With MQTT 5 and a persistent session: how long the broker keeps the session of a "
    "disconnected task. 4294967295: as long as the broker allows.", at_least=0, at_most=_SESSION_S)
WILL_TOPIC: Final = CONNECTION_KEYS.text("penstock.mqtt.will.topic", None,
    "The topic for the will of a task, which the broker publishes if the connection breaks. "
    "`${task}` is the task number.", check=A_TOPIC)
WILL_PAYLOAD: Final = CONNECTION_KEYS.text("penstock.mqtt.will.payload", "",
    "The payload of the will.")
WILL_QOS: Final = CONNECTION_KEYS.number("penstock.mqtt.will.qos", 0,
    "The QoS of the will.", at_least=0, at_most=2)
WILL_RETAINED: Final = CONNECTION_KEYS.flag("penstock.mqtt.will.retained", False,
    "Whether the broker retains the will.")
HEADERS: Final = CONNECTION_KEYS.flag("penstock.mqtt.headers", True,
    "Whether message properties become record headers (source) or headers become properties "
    "(sink, with MQTT 5). Records without headers need less time and space.")
# fmt: on


def servers_problem(uris: Sequence[str] | None) -> str | None:
    """The problem of a list of URIs, or None."""
    stripped = [uri.strip() for uri in uris or () if uri.strip()]
    if not stripped:
        return "no broker is set"
    try:
        servers = [server_of(uri) for uri in stripped]
    except ValueError as error:
        return str(error)
    if len({server.secure for server in servers}) > 1:
        return "either all brokers must use TLS or none"
    return None


def servers_of(uris: Iterable[str]) -> tuple[Server, ...]:
    """The servers of valid URIs."""
    return tuple(server_of(uri.strip()) for uri in uris if uri.strip())


def filters_problem(filters: Sequence[str] | None) -> str | None:
    """The problem of a list of topic filters, or None."""
    if not filters:
        return "no topic is set"
    for topic_filter in filters:
        if problem := filter_problem(topic_filter):
            return f"'{topic_filter}' cannot be subscribed to: {problem}"
    return None


def will_of(config: Config) -> Will | None:
    """The configured will, if any."""
    topic = config[WILL_TOPIC]
    if not topic:
        return None
    return Will(topic, config[WILL_PAYLOAD], config[WILL_QOS], config[WILL_RETAINED])


def options_of(
    config: Config,
    *,
    servers: tuple[Server, ...],
    names: Names,
    clean: bool,
    client_id: str,
    username: str | None,
    password: Secret | None,
    tls: Mapping[str, str],
    tls_names: Mapping[str, str],
    connect_s: float,
    keepalive_s: int,
) -> Options:
    """Connection parameters of a valid configuration. `tls`: settings by Java's names; `tls_names`:
    the configuration's names for them. Raises ConfigInvalid for unreadable stores."""
    context: ssl.SSLContext | None = None
    if any(server.secure for server in servers):
        try:
            context = client_context(TlsSettings(tls))
        except ConfigInvalid as error:
            raise renamed(error, dict(tls_names)) from error
    return Options(
        servers=servers,
        names=names,
        v5=config[VERSION] == V5,
        clean=clean,
        client_id=client_id,
        username=username or None,
        password=password if password is not None and password.value else None,
        tls=context,
        connect_s=connect_s,
        keepalive_s=keepalive_s,
        receive_maximum=config[RECEIVE_MAXIMUM],
        session_expiry_s=config[SESSION_EXPIRY],
        will=will_of(config),
    )


def credentials_rule(
    username: str, password: str
) -> Callable[[Mapping[str, object]], Iterable[tuple[str, str]]]:
    """Requires a user for a password, as MQTT 3.1.1 does."""

    def rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
        secret = parsed.get(password)
        if isinstance(secret, Secret) and secret.value and not parsed.get(username):
            yield username, invalid(username, parsed.get(username), f"{password} is set without it")

    return rule


def store_type(path: str) -> str:
    """PEM or PKCS12, by the start of a file; Java's own formats are refused later."""
    try:
        with Path(path).open("rb") as file:
            return "PEM" if file.read(4096).lstrip().startswith(b"-----BEGIN") else "PKCS12"
    except OSError:
        return "PKCS12"  # reading it reports the error


def spread(filters: Sequence[str], shared: Sequence[bool], tasks: int) -> list[list[str]]:
    """The filters of each task: all tasks get shared ones, the others are divided.

    >>> spread(["a", "b", "c"], [False] * 3, 2)
    [['a', 'c'], ['b']]
    >>> spread(["$share/g/a", "b"], [True, False], 3)
    [['$share/g/a', 'b'], ['$share/g/a'], ['$share/g/a']]
    """
    plain = [text for text, is_shared in zip(filters, shared, strict=True) if not is_shared]
    common = [text for text, is_shared in zip(filters, shared, strict=True) if is_shared]
    count = tasks if common else min(tasks, len(plain))
    return [[*common, *plain[number::count]] for number in range(count)]
