"""The sinks under chaos, a module for each kind of server, and the table of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from tests.servers import redis_modules
from tests.servers.mqtt import NO_MOSQUITTO, mosquitto
from tests.servers.object_store import INSTALL, is_installed
from tests.servers.redis import MISSING

from .base import Family
from .cassandra import Cassandra, Lenses
from .files import Hdfs, Lines, LocalFolder
from .jdbc import MariaDb, Postgres
from .messages import AivenHttp, Http, HttpArrays, LensesHttp, Mqtt
from .mongodb import Mongo
from .objects import S3, AivenS3, Azure, Gcs, S3Parquet
from .redis import RedisHashes, RedisJson, RedisStream
from .routed import PostgresRouted, S3Routed
from .search import Elasticsearch, OpenSearch

FAMILIES: Final[Mapping[str, Callable[[], Family]]] = {
    "jdbc-upsert": Postgres,
    "jdbc-insert": lambda: Postgres("insert"),
    "jdbc-update": lambda: Postgres("update"),
    "jdbc-mariadb": MariaDb,
    "cassandra": Cassandra,
    "cassandra-lenses": Lenses,
    "jdbc-routed": PostgresRouted,
    "mongodb": Mongo,
    "redis": RedisHashes,
    "redis-json": RedisJson,
    "redis-stream": RedisStream,
    "opensearch": OpenSearch,
    "elasticsearch": Elasticsearch,
    "s3": S3,
    "s3-routed": S3Routed,
    "s3-parquet": S3Parquet,
    "s3-aiven": AivenS3,
    "gcs": Gcs,
    "azure": Azure,
    "hdfs": Hdfs,
    "local": LocalFolder,
    "lines": Lines,
    "http": Http,
    "http-arrays": HttpArrays,
    "http-aiven": AivenHttp,
    "http-lenses": LensesHttp,
    "mqtt": Mqtt,
}
"""How each begins, by name."""

UNAVAILABLE: Final[Mapping[str, str]] = {
    "couchbase": "no Couchbase server can be had: CouchbaseMock does not accept the SDK",
}
"""Families without a server for tests, and why."""

QUICK: Final = ("jdbc-upsert",)
"""What `make test` runs."""


def missing(family: str) -> str | None:
    """Why a family's server cannot be started here; None if it can."""
    if family in UNAVAILABLE:
        return UNAVAILABLE[family]
    if family == "redis-json":
        return redis_modules.missing()
    if family.startswith("redis"):
        return MISSING
    if family == "mqtt" and mosquitto() is None:
        return NO_MOSQUITTO
    if family in ("local", "lines") and os.geteuid():
        return "only root may make files immutable"
    if family.startswith("s3") and not is_installed():
        return f"{INSTALL} for an S3"
    return None
