"""The configuration of a worker (kafka-connect.md §2), and what derives from it alone.

The keys are in `worker_keys`. `config.props` also has undeclared settings, which are for Kafka
clients or Spark.

    >>> config = parse_distributed({
    ...     "bootstrap.servers": "kafka:9092",
    ...     "group.id": "connect",
    ...     "config.storage.topic": "connect-configs",
    ...     "offset.storage.topic": "connect-offsets",
    ...     "offset.storage.min.insync.replicas": "2",
    ...     "status.storage.topic": "connect-status",
    ...     "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    ...     "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    ... })
    >>> from penstock.config.worker_keys import OFFSET_STORAGE_PARTITIONS, OFFSET_STORAGE_PREFIX
    >>> config[OFFSET_STORAGE_PARTITIONS]
    25
    >>> advertised_url(config, bound_port=8083, local_host="worker-1")
    'http://worker-1:8083/'
    >>> topic_settings(config, OFFSET_STORAGE_PREFIX).settings
    {'min.insync.replicas': '2'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.config.define import Config, Props, under
from penstock.config.listeners import PROTOCOLS, Listener, parse_listener
from penstock.config.macs import mac
from penstock.config.worker_keys import (
    ADMIN_LISTENERS,
    BOOTSTRAP_RESOLVE_TIMEOUT,
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CONFIG_STORAGE_PREFIX,
    CONNECTIONS_MAX_IDLE,
    DISTRIBUTED,
    EXACTLY_ONCE_SOURCE_SUPPORT,
    GROUP_ID,
    INTER_WORKER_KEY_GENERATION_ALGORITHM,
    INTER_WORKER_KEY_SIZE,
    LISTENERS,
    REBALANCE_TIMEOUT,
    REST_ADVERTISED_HOST,
    REST_ADVERTISED_LISTENER,
    REST_ADVERTISED_PORT,
)
from penstock.ids import TaskId


def parse_distributed(props: Props) -> Config:
    """The configuration of a worker of a cluster; raises ConfigInvalid with every problem."""
    return DISTRIBUTED.parse(props)


def warnings(config: Config) -> list[str]:
    """What to log about a worker's settings, in Kafka Connect's words."""
    texts = []
    resolve_ms = config[BOOTSTRAP_RESOLVE_TIMEOUT]
    if resolve_ms:
        texts.append(
            f"The value {resolve_ms} for the {BOOTSTRAP_RESOLVE_TIMEOUT.name} property will be "
            "ignored as Kafka Connect does not support asynchronous bootstrap resolution. The "
            "value 0 will be used instead."
        )
    idle_ms, rebalance_ms = config[CONNECTIONS_MAX_IDLE], config[REBALANCE_TIMEOUT]
    if 0 <= idle_ms < rebalance_ms:
        texts.append(
            f"Configuration '{CONNECTIONS_MAX_IDLE.name}' with value '{idle_ms}' is lower than "
            f"configuration '{REBALANCE_TIMEOUT.name}' with value '{rebalance_ms}'. This may cause "
            "the connection to the group coordinator to be closed during an ongoing rebalance, "
            "which can prolong or disrupt group rejoin."
        )
    return texts


def listeners(config: Config) -> tuple[Listener, ...]:
    """Where the REST server listens."""
    return tuple(map(parse_listener, config[LISTENERS]))


def admin_listeners(config: Config) -> tuple[Listener, ...] | None:
    """Where the admin endpoints listen; None: like all others, empty: nowhere."""
    texts = config[ADMIN_LISTENERS]
    return None if texts is None else tuple(map(parse_listener, texts))


def advertised_listener(config: Config) -> Listener | None:
    """The advertised listener; None if none has the protocol `rest.advertised.listener`."""
    protocol = _advertised_protocol(config)
    return next((listener for listener in listeners(config) if listener.protocol == protocol), None)


def advertised_url(config: Config, bound_port: int, local_host: str) -> str:
    """The URL of this worker for others, with a slash at the end (kafka-connect.md §1.1).

    `bound_port` is the actual port of the advertised listener, `local_host` the machine's name.
    """
    return f"{_advertised_protocol(config)}://{worker_id(config, bound_port, local_host)}/"


def worker_id(config: Config, bound_port: int, local_host: str) -> str:
    """The worker's name in every status: advertised host and port."""
    listener = advertised_listener(config)
    host = config[REST_ADVERTISED_HOST] or (listener and listener.host) or local_host
    port = config[REST_ADVERTISED_PORT]
    if port is None:
        port = listener.port if listener is not None and listener.port > 0 else bound_port
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{bracketed}:{port}"


def _advertised_protocol(config: Config) -> str:
    protocol = config[REST_ADVERTISED_LISTENER]
    if protocol is not None:
        return protocol.lower()
    spoken = {listener.protocol for listener in listeners(config)}
    return next(protocol for protocol in PROTOCOLS if protocol in spoken)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of an internal topic, and names of those that are ignored."""

    settings: dict[str, str]
    dropped: tuple[str, ...]  # full names; each deserves a warning


def topic_settings(config: Config, prefix: str) -> TopicSettings:
    """The topic settings below `config.storage.`, `offset.storage.` or `status.storage.`
    (kafka-connect.md §2.6)."""
    configured = config.under(prefix)
    settings = {
        name: value
        for name, value in configured.items()
        if name not in ("topic", "partitions", "replication.factor", "cleanup.policy")
    }
    # The config topic has one partition, and all three are compacted, whatever the settings.
    vain = ["partitions"] if prefix == CONFIG_STORAGE_PREFIX else []
    dropped = tuple(prefix + name for name in (*vain, "cleanup.policy") if name in configured)
    return TopicSettings(settings, dropped)


def client_id_base(config: Config) -> str:
    """The prefix of client ids of the worker's own clients (kafka-connect.md §4.7)."""
    client_id = config[CLIENT_ID]
    return f"{config[GROUP_ID]}-{client_id}-" if client_id else f"{config[GROUP_ID]}-"


def connector_client(config: Config, client: str, props: Props) -> dict[str, str]:
    """The settings of a connector's `producer`, `consumer` or `admin` under Java's names: the
    worker's, with the connector's overrides (kafka-connect.md §2.5)."""
    return {
        "bootstrap.servers": ",".join(config[BOOTSTRAP_SERVERS]),
        **config.under(f"{client}."),
        **under(props, f"{client}.override."),
    }


def connector_admin(config: Config, client_id: str, props: Props) -> dict[str, str]:
    """The settings of an admin client for a connector, under Java's names (kafka-connect.md §2.5).

    Unlike those of `connector_client`, they include the worker's own settings.
    """
    originals = {
        name: text
        for name, text in config.props.items()
        if not name.startswith(("admin.", "producer.", "consumer."))
    }
    return {"client.id": client_id, **originals, **connector_client(config, "admin", props)}


def exactly_once(config: Config) -> bool:
    """Whether source tasks write records and offsets in transactions (KIP-618)."""
    return config[EXACTLY_ONCE_SOURCE_SUPPORT].lower() == "enabled"


def transactional_id(config: Config, task: TaskId) -> str:
    """The transactional id of a source task's producer, with exactly once (kafka-connect.md
    §4.8)."""
    return f"{config[GROUP_ID]}-{task}"


def session_keys(config: Config) -> tuple[str, int]:
    """The algorithm of the keys that sign requests between workers, by the name that is stored, and
    their length in bytes."""
    algorithm = mac(config[INTER_WORKER_KEY_GENERATION_ALGORITHM])
    assert algorithm is not None  # checked when parsed
    return algorithm.name, algorithm.key_bytes(config[INTER_WORKER_KEY_SIZE])


def spark_settings(config: Config) -> dict[str, str]:
    """Spark's settings: every `spark.*`, under its full name."""
    return {name: value for name, value in config.props.items() if name.startswith("spark.")}


def kafka_encrypted(config: Config) -> bool:
    """Whether the worker, or a client of its connectors, uses TLS to Kafka."""
    return any(
        name.endswith("security.protocol") and "SSL" in text.upper()
        for name, text in config.props.items()
    )


def rest_ssl_settings(config: Config, prefix: str = "listeners.https.") -> dict[str, str]:
    """The TLS settings of https listeners: those with the prefix if there are any, without it;
    otherwise the plain `ssl.*` (never both, kafka-connect.md §1.1). Pass `admin.listeners.https.`
    for the admin listeners."""
    source = under(config.props, prefix) or config.props
    return {name: value for name, value in source.items() if name.startswith("ssl.")}


_UNDERSCORES: Final = re.compile("_+")


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Worker settings from `CONNECT_*` variables, as the usual container images spell them.

    Lower case, `_` for a dot, `__` for an underscore, `___` for a hyphen; sorted by name.

        >>> from_environment({"CONNECT_GROUP_ID": "g", "PATH": "/bin"})
        {'group.id': 'g'}
    """
    return {
        _UNDERSCORES.sub(_spelled, name.removeprefix("CONNECT_").lower()): value
        for name, value in sorted(environ.items())
        if name.startswith("CONNECT_") and name != "CONNECT_"
    }


def _spelled(underscores: re.Match[str]) -> str:
    """One is a dot, two an underscore, three a hyphen; more begin with hyphens."""
    length = len(underscores[0])
    return "." if length == 1 else "-" * (length // 3) + "_" * (length % 3 > 0)
