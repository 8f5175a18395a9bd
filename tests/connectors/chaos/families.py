"""The connectors under chaos: a family is a sink, its real server, and what the server must hold.

`Append`: every record, in the order of its partition where the store has one. `Upsert`: the last
record of each key, and nothing under a key whose last record is a tombstone.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import boto3
import httpx
import orjson
import redis
from botocore.config import Config

from penstock.testing.databases import DatabaseServer, MariaDbServer, PostgresServer
from penstock.testing.object_store import INSTALL, FaultyProxy, ObjectStore, is_installed
from penstock.testing.redis import MISSING, RedisServer
from penstock.testing.search import SearchServer
from penstock.testing.waiting import wait_until

HOT: Final = 40
"""How many keys come again and again, `hot0` and so on; those of other records begin with `k`."""

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"field": "n", "type": "int64"},
        {"field": "id", "type": "string"},
        {"field": "text", "type": "string"},
    ],
}


class Family(ABC):
    """A sink connector and its server. As a context manager the server runs."""

    keyed = True  # the store holds the last record of each key
    deletes = True  # a tombstone deletes
    kills = True  # the server keeps what it acknowledged when it is killed
    reports = True  # a record that the server refuses goes to the dead letter queue
    blocks = False  # a refusal is of all records, not of some keys
    retries = False  # a refusal is a fault of the server: the sink waits for its end
    schema = False  # values are written with their schema

    @property
    @abstractmethod
    def port(self) -> int:
        """Where the server listens."""

    @abstractmethod
    def prepare(self, topic: str) -> None:
        """Makes what the sink writes to."""

    @abstractmethod
    def config(self, topic: str, port: int) -> dict[str, str]:
        """The connector's configuration; it connects to the server through `port`."""

    @abstractmethod
    def refuse(self, keys: Iterable[str]) -> None:
        """From now on the server itself refuses new records with these keys."""

    @abstractmethod
    def mend(self) -> None:
        """Ends all refusals."""

    @abstractmethod
    def stored(self) -> Iterable[tuple[str, int]]:
        """Key and number of what is stored; an append-only store has them in its order."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def value(self, key: str, number: int) -> bytes:
        """The value of a record."""
        row = {"n": number, "id": key, "text": f"row {number}"}
        return orjson.dumps({"schema": _SCHEMA, "payload": row} if self.schema else row)

    def number_of(self, value: bytes) -> int:
        """The number in a record's value."""
        row = orjson.loads(value)
        return int((row["payload"] if self.schema else row)["n"])


class Postgres(Family):
    """The JDBC sink with PostgreSQL; a check constraint refuses rows."""

    schema = True
    server: ClassVar[type[DatabaseServer]] = PostgresServer

    def __init__(self, mode: str = "upsert") -> None:
        self.keyed = self.deletes = mode == "upsert"
        self._mode = mode
        self._server = self.server()
        self._server.__enter__()

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        key = "k varchar(20) PRIMARY KEY, " if self.keyed else "seq serial, "
        self._execute(f"CREATE TABLE chaos ({key} n bigint, id varchar(20), text varchar(40))")

    def config(self, topic: str, port: int) -> dict[str, str]:
        modes = {"pk.mode": "record_key", "pk.fields": "k", "delete.enabled": "true"}
        return {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            **self._server.settings(),
            "connection.url": self._server.url.replace(f":{self.port}/", f":{port}/"),
            "table.name.format": "chaos",
            "insert.mode": self._mode,
            "max.retries": "4",
            "retry.backoff.ms": "300",
            "connection.attempts": "1",
            "value.converter": JSON,
            **(modes if self.keyed else {}),
        }

    def refuse(self, keys: Iterable[str]) -> None:
        names = ", ".join(f"'{key}'" for key in keys)
        self._execute(
            "ALTER TABLE chaos DROP CONSTRAINT IF EXISTS refused",
            f"ALTER TABLE chaos ADD CONSTRAINT refused CHECK (id NOT IN ({names})) NOT VALID",
        )

    def mend(self) -> None:
        self._execute("ALTER TABLE chaos DROP CONSTRAINT IF EXISTS refused")

    def stored(self) -> Iterable[tuple[str, int]]:
        with self._server.connect() as connection:
            order = "k" if self.keyed else "seq"
            for key, number in connection.rows(f"SELECT id, n FROM chaos ORDER BY {order}"):
                yield str(key), int(number)

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()

    def _execute(self, *statements: str) -> None:
        with self._server.connect() as connection:
            for statement in statements:
                connection.execute(statement)


class MariaDb(Postgres):
    """The JDBC sink with MariaDB; a trigger refuses rows."""

    server = MariaDbServer

    def refuse(self, keys: Iterable[str]) -> None:
        names = ", ".join(f"'{key}'" for key in keys)
        self._execute(
            "CREATE OR REPLACE TRIGGER refused BEFORE INSERT ON chaos FOR EACH ROW "
            f"IF NEW.id IN ({names}) THEN SIGNAL SQLSTATE '23000' "
            "SET MESSAGE_TEXT = 'this key is refused'; END IF"
        )

    def mend(self) -> None:
        self._execute("DROP TRIGGER IF EXISTS refused")


class RedisHashes(Family):
    """Hashes in Redis; the user may not write some keys for a while."""

    _own: ClassVar = ("~row:k*", "~com.redis.kafka.connect.sink.offset.*")
    schema = True

    def __init__(self) -> None:
        self._server = RedisServer(appends=True)
        self._server.start()
        self._client = redis.Redis(port=self._server.port)

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        """Keys need no preparation."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "com.redis.kafka.connect.RedisSinkConnector",
            "redis.uri": f"redis://127.0.0.1:{port}",
            "redis.type": "HASH",
            "redis.keyspace": "row",
            "value.converter": JSON,
        }

    def refuse(self, keys: Iterable[str]) -> None:
        allowed = {f"~row:hot{number}" for number in range(HOT)} - {f"~row:{key}" for key in keys}
        self._client.execute_command("ACL", "SETUSER", "default", "resetkeys", *self._own, *allowed)

    def mend(self) -> None:
        self._client.execute_command("ACL", "SETUSER", "default", "allkeys")

    def stored(self) -> Iterable[tuple[str, int]]:
        for name in self._client.scan_iter("row:*", 10_000):
            yield name.decode().removeprefix("row:"), int(self._client.hget(name, "n") or -1)

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._client.close()
        self._server.close()


class Search(Family):
    """Documents by key in OpenSearch; a block on the index refuses each item of a request."""

    reports = False
    blocks = retries = True

    def __init__(self) -> None:
        self._server = SearchServer("opensearch")
        self._server.start()
        self._index = ""

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        self._index = topic
        self._server.request("PUT", f"/{topic}")

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
            "connection.url": f"http://127.0.0.1:{port}",
            "key.ignore": "false",
            "schema.ignore": "true",
            "behavior.on.null.values": "delete",
            # Records that are delivered again are older than what is stored.
            "behavior.on.version.conflict": "ignore",
            "max.retries": "3",
            "retry.backoff.ms": "200",
            "batch.size": "100",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        }

    def refuse(self, keys: Iterable[str]) -> None:
        self._block(True)

    def mend(self) -> None:
        self._block(False)

    def _block(self, wanted: bool) -> None:
        self._server.request("PUT", f"/{self._index}/_settings", {"index.blocks.write": wanted})

    def stored(self) -> Iterable[tuple[str, int]]:
        self._server.request("POST", f"/{self._index}/_refresh")
        query: dict[str, Any] = {"size": 5_000, "sort": [{"n": "asc"}]}
        while hits := self._server.request("POST", f"/{self._index}/_search", query)["hits"][
            "hits"
        ]:
            for hit in hits:
                yield hit["_id"], int(hit["_source"]["n"])
            query["search_after"] = hits[-1]["sort"]

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

        def serves() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return self._server.count(self._index) >= 0
            return False

        wait_until(serves, 60, "the index to be served")

    def close(self) -> None:
        self._server.close()


class S3(Family):
    """Objects of JSON lines in a store that keeps them in memory. It enforces no policy, so a front
    denies access in its place."""

    keyed = deletes = kills = reports = False
    blocks = True

    def __init__(self) -> None:
        self._store = ObjectStore()
        self._front = FaultyProxy(self._store.port)
        self._client = boto3.client(
            "s3",
            endpoint_url=self._store.url,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(s3={"addressing_style": "path"}),
        )
        self._topic = ""

    @property
    def port(self) -> int:
        port = urlsplit(self._front.url).port
        assert port is not None
        return port

    def prepare(self, topic: str) -> None:
        self._topic = topic
        self._client.create_bucket(Bucket="lake")

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "s3.bucket.name": "lake",
            "s3.region": "us-east-1",
            "store.url": f"http://127.0.0.1:{port}",
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
            "flush.size": "50",
            "rotate.schedule.interval.ms": "2000",
            "timezone": "UTC",
            "s3.part.retries": "1",
            "s3.retry.backoff.ms": "100",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        }

    def refuse(self, keys: Iterable[str]) -> None:
        writes = ("PUT", "POST")
        self._front.fault = lambda method, path: (
            "answer AccessDenied 403" if method in writes else None
        )

    def mend(self) -> None:
        self._front.fault = lambda method, path: None

    def stored(self) -> Iterable[tuple[str, int]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket="lake")
        for page in pages:
            for entry in page.get("Contents", ()):
                body = self._client.get_object(Bucket="lake", Key=entry["Key"])["Body"].read()
                for line in body.splitlines():
                    row = orjson.loads(line)
                    yield row["id"], int(row["n"])

    def kill(self) -> None:
        raise NotImplementedError("it would forget its objects")

    def start(self) -> None:
        raise NotImplementedError("it was not killed")

    def close(self) -> None:
        self._client.close()
        self._front.close()
        self._store.close()


FAMILIES: Final[Mapping[str, Callable[[], Family]]] = {
    "jdbc-upsert": Postgres,
    "jdbc-insert": lambda: Postgres("insert"),
    "jdbc-mariadb": MariaDb,
    "redis": RedisHashes,
    "search": Search,
    "s3": S3,
}
"""How each begins, by name."""

QUICK: Final = ("jdbc-upsert",)
"""What `make test` runs."""


def missing(family: str) -> str | None:
    """Why a family's server cannot be started here; None if it can."""
    if family == "redis":
        return MISSING
    if family == "s3" and not is_installed():
        return f"{INSTALL} for an S3"
    return None
