"""Lists, alters and resets a connector's offsets for REST (kafka-connect.md §1.7).

For a source connector these are the pairs in its offset topic, for a sink the committed offsets of
its consumer group. Offsets are altered only while the connector is stopped; the caller checks that,
and with exactly once fences its tasks. Everything here blocks on Kafka.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final

import kafka.structs
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as AnyKafkaError

from penstock.api import Offsets, SinkConnector, SourceConnector, SourceOffset
from penstock.cluster.records import RawProps
from penstock.config import connector as connector_config
from penstock.config import connector_keys
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.config.define import Config
from penstock.errors import BadRequest, PenstockError
from penstock.ids import TaskId
from penstock.kafka import clients
from penstock.kafka.fencing import transaction
from penstock.kafka.topics import admin_client
from penstock.offsets.store import OffsetStore, connector_admin_java, producer_settings
from penstock.plugins.registry import InstalledPlugin

log = logging.getLogger(__name__)

Json = dict[str, Any]

NOT_GIVEN: Final = "Partitions / offsets need to be provided for an alter offsets request"
_TIMEOUT_S: Final = 30.0
_LEAVING_S: Final = 5.0
_RETRY_S: Final = 0.1
_STILL_THERE: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)


AlterInJava = Callable[[str, RawProps, Sequence[Json] | None], str]
"""Alters a connector's offsets, or resets them if they are None; returns the message."""


class OffsetAdmin:
    """The offsets of connectors."""

    def __init__(
        self,
        config: Config,
        store: OffsetStore,
        resolved: Callable[[RawProps], RawProps],
        java: AlterInJava,
    ) -> None:
        """`resolved` resolves the placeholders in a connector's configuration; `java` alters the
        offsets of a connector that is written in Java."""
        self._alter_in_java = java
        self._config = config
        self._resolved = resolved
        self._store = store
        self._exactly_once = worker_config.exactly_once(config)

    def read(self, name: str, entry: InstalledPlugin, props: RawProps) -> Json:
        """`ConnectorOffsets`: all stored or committed offsets."""
        props = self._resolved(props)
        if issubclass(entry.cls, SourceConnector):
            pairs = [_pair(offset) for offset in self.stored(name, props)]
        else:
            committed = self._committed(name, props)
            pairs = [
                {
                    "partition": {"kafka_partition": partition, "kafka_topic": topic},
                    "offset": {"kafka_offset": offset},
                }
                for (topic, partition), offset in sorted(committed.items())
            ]
        return {"offsets": pairs}

    def alter(
        self, name: str, entry: InstalledPlugin, props: RawProps, pairs: Sequence[Json]
    ) -> str:
        """Alters the offsets of these partitions; returns the message for the user."""
        props = self._resolved(props)
        if entry.java:
            return self._alter_in_java(name, props, pairs)
        if issubclass(entry.cls, SourceConnector):
            offsets = [source_offset(pair) for pair in pairs]
            done = _alter_offsets(name, entry, props, offsets, "alter")
            self._store_all(name, props, offsets)
        else:
            places = sink_offsets(pairs)
            done = _alter_offsets(name, entry, props, places, "alter")
            self._commit(name, props, places)
        return _message("altered", done)

    def reset(self, name: str, entry: InstalledPlugin, props: RawProps) -> str:
        """Resets all offsets of the connector; returns the message for the user."""
        props = self._resolved(props)
        if entry.java:
            return self._alter_in_java(name, props, None)
        if issubclass(entry.cls, SourceConnector):
            offsets = [SourceOffset(offset.partition, None) for offset in self.stored(name, props)]
            done = _alter_offsets(name, entry, props, offsets, "reset")
            self._store_all(name, props, offsets)
        else:
            places = dict.fromkeys(self._committed(name, props))
            done = _alter_offsets(name, entry, props, places, "reset")
            self._delete_group(name, props)
        return _message("reset", done)

    def stored(self, name: str, props: RawProps) -> Offsets:
        """The stored offsets of a source connector. Blocks."""
        lease = self._store.lease(TaskId(name, 0), props)
        try:
            return lease.read(lambda: None)
        finally:
            lease.close()

    def _store_all(self, name: str, props: RawProps, offsets: Offsets) -> None:
        lease = self._store.lease(TaskId(name, 0), props)
        try:
            if not self._exactly_once:
                lease.store(offsets)
                return
            settings = producer_settings(self._config, props)
            topic = props.get(connector_keys.OFFSETS_TOPIC.name)
            id = worker_config.transactional_id(self._config, TaskId(name, 0))
            with transaction(settings, id) as produce:
                for key, value in lease.encode(offsets):
                    produce(topic or self._config[keys.OFFSET_STORAGE_TOPIC], key, value)
            lease.committed(offsets)
        finally:
            lease.close()

    def _java(self, name: str, props: RawProps) -> dict[str, str]:
        return connector_admin_java(self._config, f"connector-adminclient-{name}", props)

    def _admin(self, name: str, props: RawProps) -> AdminClient:
        return admin_client(clients.admin(self._java(name, props)).settings)

    def _committed(self, name: str, props: RawProps) -> dict[tuple[str, int], int]:
        groups = [ConsumerGroupTopicPartitions(_group(name, props))]
        admin = self._admin(name, props)  # referenced until it has answered
        try:
            [answer] = admin.list_consumer_group_offsets(groups).values()
            offsets = answer.result(_TIMEOUT_S)
        except KafkaException as error:
            raise PenstockError(
                f"Failed to retrieve consumer group offsets for sink connector {name}: {error}"
            ) from error
        rows = offsets.topic_partitions or []
        return {(row.topic, row.partition): row.offset for row in rows if row.offset >= 0}

    def _commit(
        self, name: str, props: RawProps, offsets: Mapping[tuple[str, int], int | None]
    ) -> None:
        group = _group(name, props)
        rows = [
            TopicPartition(topic, partition, offset)
            for (topic, partition), offset in offsets.items()
            if offset is not None
        ]
        if any(row.offset < 0 for row in rows):
            raise PenstockError(
                f"Failed to modify offsets for sink connector {name}: Invalid negative offset"
            )
        deleted = {
            kafka.structs.TopicPartition(*partition)
            for partition, offset in offsets.items()
            if offset is None
        }
        admin = self._admin(name, props)

        def alter() -> None:
            request = [ConsumerGroupTopicPartitions(group, rows)]
            [answer] = admin.alter_consumer_group_offsets(request).values()
            for row in answer.result(_TIMEOUT_S).topic_partitions or []:
                if row.error is not None:
                    raise KafkaException(row.error)

        def delete() -> None:
            client = KafkaAdminClient(**clients.member(self._java(name, props)).arguments())
            try:
                client.delete_group_offsets(group, deleted)
            finally:
                client.close()

        try:
            if rows:
                _when_left(alter)
            if deleted:
                _when_left(delete)
        except (KafkaException, AnyKafkaError) as error:
            raise _sink_failure(name, "alter", error) from error

    def _delete_group(self, name: str, props: RawProps) -> None:
        group = _group(name, props)
        admin = self._admin(name, props)
        try:
            _when_left(lambda: admin.delete_consumer_groups([group])[group].result(_TIMEOUT_S))
        except KafkaException as error:
            if _code(error) != KafkaError.GROUP_ID_NOT_FOUND:  # then there are none
                raise _sink_failure(name, "reset", error) from error


def _when_left(change: Callable[[], object]) -> None:
    """Makes a change that Kafka refuses while the group has members. Retries for a while, since the
    consumers of tasks that have just stopped may still be leaving."""
    deadline = time.monotonic() + _LEAVING_S
    while True:
        try:
            change()
        except (KafkaException, AnyKafkaError) as error:
            if _code(error) not in _STILL_THERE or time.monotonic() > deadline:
                raise
            Event().wait(_RETRY_S)
        else:
            return


def _code(error: Exception) -> object:
    """Kafka's error code, from either client."""
    if isinstance(error, KafkaException):
        return error.args[0].code()
    return getattr(error, "errno", None)


def _alter_offsets(
    name: str, entry: InstalledPlugin, props: RawProps, offsets: Any, verb: str
) -> bool:
    """Calls the connector's `alter_offsets`. Raises the connector's own refusal unchanged; any
    other error gets a message about the operation."""
    assert issubclass(entry.cls, SourceConnector | SinkConnector)
    try:
        connector, config = entry.cls(), _parsed(entry, props)
        connector.check_installed(config)
        return connector.alter_offsets(config, offsets)
    except PenstockError:
        raise
    except Exception as error:
        text = f"Failed to {verb} offsets for {entry.kind.value} connector {name}"
        raise PenstockError(f"{text}: {error}") from error


def source_offset(pair: Json) -> SourceOffset:
    """A request's pair; without a partition it can only be reset."""
    partition, offset = pair.get("partition"), pair.get("offset")
    if partition is None and offset is not None:
        raise PenstockError("Partition objects cannot be null")
    return SourceOffset(partition or {}, offset)


def sink_offsets(pairs: Sequence[Json]) -> dict[tuple[str, int], int | None]:
    """A request's pairs as topic, partition and offset; raises BadRequest with Kafka
    Connect's texts. Numbers may be strings."""
    offsets: dict[tuple[str, int], int | None] = {}
    for pair in pairs:
        partition, offset = pair.get("partition"), pair.get("offset")
        if partition is None:
            raise BadRequest("The partition for a sink connector offset cannot be null or missing")
        if not {"kafka_topic", "kafka_partition"} <= partition.keys():
            raise BadRequest(
                "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
                "'kafka_partition'"
            )
        topic, number = partition["kafka_topic"], partition["kafka_partition"]
        if topic is None:
            raise BadRequest("Kafka topic names must be valid strings and may not be null")
        if number is None:
            raise BadRequest("Kafka partitions must be valid numbers and may not be null")
        place = str(topic), _integer(number, 31, "partition", "Partition")
        if offset is None:
            offsets[place] = None
        elif "kafka_offset" not in offset:
            raise BadRequest(
                "The offset for a sink connector should either be null or contain the key "
                "'kafka_offset'"
            )
        else:
            offsets[place] = _integer(offset["kafka_offset"], 63, "offset", "Offset")
    return offsets


def _integer(value: object, bits: int, noun: str, title: str) -> int:
    """A number of so many bits plus its sign, parsed as in Java."""
    shown = value if isinstance(value, str) else json.dumps(value)
    if not isinstance(value, bool) and re.fullmatch(r"[+-]?\d{1,40}", shown):
        number = int(shown)
        if -(1 << bits) <= number < 1 << bits:
            return number
    raise BadRequest(
        f"Failed to parse the following Kafka {noun} value in the provided offsets: '{shown}'. "
        f"{title} values for sink connectors need to be integers."
    )


def _sink_failure(name: str, verb: str, error: Exception) -> PenstockError:
    if _code(error) not in _STILL_THERE:
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        return PenstockError(
            f"Failed to {verb} consumer group offsets for connector {name}: {text}"
        )
    return PenstockError(
        f"Failed to {verb} consumer group offsets for connector {name} either because its tasks "
        f"haven't stopped completely yet or the connector was resumed before the request to {verb} "
        "its offsets could be successfully completed. If the connector is in a stopped state, this "
        "operation can be safely retried. If it doesn't eventually succeed, the Connect cluster "
        "may need to be restarted to get rid of the zombie sink tasks."
    )


def _message(verb: str, done: bool) -> str:
    if done:
        return f"The offsets for this connector have been {verb} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {verb} successfully. "
        "However, if this connector manages offsets externally, they will need to be manually "
        f"{verb} in the system that the connector uses."
    )


def _pair(offset: SourceOffset) -> Json:
    return {"partition": dict(offset.partition), "offset": offset.offset and dict(offset.offset)}


def _group(name: str, props: RawProps) -> str:
    return props.get(connector_config.GROUP_OVERRIDE) or connector_config.consumer_group(name)


def _parsed(entry: InstalledPlugin, props: RawProps) -> Config:
    return entry.plugin.config.parse(dict(props))


def requested(body: object) -> list[Json]:
    """The pairs of a PATCH. Raises BadRequest if there are none, PenstockError for a bad body."""
    if not isinstance(body, dict) or body.keys() - {"offsets"}:
        raise PenstockError("Cannot deserialize an object with 'offsets' from the body")
    if not body.get("offsets"):
        raise BadRequest(NOT_GIVEN)
    pairs = body["offsets"]
    for pair in pairs if isinstance(pairs, list) else [None]:
        if (
            not isinstance(pair, dict)
            or pair.keys() - {"partition", "offset"}
            or not all(part is None or isinstance(part, dict) for part in pair.values())
        ):
            raise PenstockError("Cannot deserialize a list of partitions and offsets from the body")
    return list(pairs)
