"""Connections that fail, of every family, with a secret in each place where one can stand: neither
the errors of a validation nor the trace of a task show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.api import SinkConnector, SourceConnector
from penstock.config.worker import parse_distributed
from penstock.flow.traces import trace_of
from penstock.ids import TopicPartition
from penstock.plugins.registry import Registry
from penstock.runtime.planning import Planner
from penstock.testing.conformance_case import records_of
from penstock.testing.contexts import SinkContextStub, SourceContextStub

MARK = "S3cr3tMark"
PORT = "127.0.0.1:1"  # nothing listens
REGISTRY = Registry.installed()
STORE = {"format.class": "JsonFormat", "flush.size": "1", "topics.dir": "x"}
ONCE = {"connection.attempts": "1", "connection.backoff.ms": "1"}
JDBC_SOURCE = {"mode": "bulk", "topic.prefix": "x-", "table.whitelist": "t", **ONCE}
S3 = {
    "s3.bucket.name": "b",
    "s3.region": "eu-west-1",
    "store.url": f"http://{PORT}",
    "aws.access.key.id": "me",
    "aws.secret.access.key": MARK,
    "s3.part.retries": "0",
}
AZURE = {
    "azblob.container.name": "box",
    "store.url": f"http://{PORT}/me",
    "azblob.account.name": "meme",
    "azblob.retry.retries": "1",
    "azblob.retry.backoff.ms": "0",
}
HANDLER = "com.couchbase.connect.kafka.handler.source.RawJsonSourceHandler"
KCQL = "INSERT INTO t SELECT * FROM r PK at INCREMENTALMODE=TIMEUUID"

CASES: dict[str, tuple[str, dict[str, str]]] = {
    "jdbc source, query of a URL": (
        "JdbcSource",
        {"connection.url": f"jdbc:postgresql://{PORT}/d?user=me&password={MARK}", **JDBC_SOURCE},
    ),
    "jdbc source, user info": (
        "JdbcSource",
        {"connection.url": f"jdbc:mysql://me:{MARK}@{PORT}/d", **JDBC_SOURCE},
    ),
    "jdbc sink, setting": (
        "JdbcSink",
        {
            **ONCE,
            "connection.url": f"jdbc:postgresql://{PORT}/d",
            "connection.user": "me",
            "connection.password": MARK,
        },
    ),
    "mongodb source, user info": (
        "MongoSource",
        {"connection.uri": f"mongodb://me:{MARK}@{PORT}/?serverSelectionTimeoutMS=200"},
    ),
    "mongodb sink, user info": (
        "MongoSink",
        {
            "connection.uri": f"mongodb://me:{MARK}@{PORT}/?serverSelectionTimeoutMS=200",
            "database": "d",
        },
    ),
    "redis sink, user info": ("RedisSink", {"redis.uri": f"redis://me:{MARK}@{PORT}"}),
    "redis sink, setting": (
        "JcustenborderRedisSink",
        {"redis.hosts": PORT, "redis.password": MARK},
    ),
    "redis source, user info": (
        "RedisStreamSource",
        {"redis.uri": f"redis://me:{MARK}@{PORT}", "redis.stream.name": "s"},
    ),
    "search sink, setting": (
        "ElasticsearchSink",
        {
            "connection.url": f"http://{PORT}",
            "connection.username": "me",
            "connection.password": MARK,
            "max.retries": "0",
        },
    ),
    "http sink, user info and query": (
        "ConfluentHttpSink",
        {
            "http.api.url": f"http://me:{MARK}@{PORT}/x?token={MARK}&sig={MARK}",
            "max.retries": "0",
            "reporter.bootstrap.servers": "",
        },
    ),
    "http sink, setting": (
        "ConfluentHttpSink",
        {
            "http.api.url": f"http://{PORT}/x?api_key={MARK}",
            "auth.type": "basic",
            "connection.user": "me",
            "connection.password": MARK,
            "max.retries": "0",
            "reporter.bootstrap.servers": "",
        },
    ),
    "s3 sink, setting": ("S3Sink", {**S3, **STORE}),
    "s3 source, setting": ("S3Source", {**S3, "format.class": "JsonFormat"}),
    "azure sink, signature": (
        "AzureBlobSink",
        {**AZURE, **STORE, "azblob.sas.token": f"sv=2020-08-04&se=2030-01-01&sig={MARK}"},
    ),
    "azure sink, key": (
        "AzureBlobSink",
        {**AZURE, **STORE, "azblob.account.key": f"{MARK}Mark=="},
    ),
    "gcs sink, JSON": (
        "GcsSink",
        {
            **STORE,
            "gcs.bucket.name": "bucket",
            "store.url": f"http://{PORT}",
            "gcs.credentials.json": f'{{"type": "service_account", "private_key": "{MARK}"}}',
        },
    ),
    "mqtt source, setting": (
        "LensesMqttSource",
        {
            "connect.mqtt.hosts": f"tcp://{PORT}",
            "connect.mqtt.kcql": "INSERT INTO t SELECT * FROM /a",
            "connect.mqtt.username": "me",
            "connect.mqtt.password": MARK,
            "connect.mqtt.timeout": "500",
            "connect.mqtt.service.quality": "1",
        },
    ),
    "cassandra sink, setting": (
        "CassandraSink",
        {
            "contactPoints": "127.0.0.1",
            "port": "1",
            "loadBalancing.localDc": "datacenter1",
            "auth.provider": "PLAIN",
            "auth.username": "me",
            "auth.password": MARK,
            "topic.conformance.ks.t.mapping": "id=value.id",
        },
    ),
    "cassandra source, setting": (
        "CassandraSource",
        {
            "connect.cassandra.contact.points": "127.0.0.1",
            "connect.cassandra.port": "1",
            "connect.cassandra.username": "me",
            "connect.cassandra.password": MARK,
            "connect.cassandra.key.space": "ks",
            "connect.cassandra.kcql": KCQL,
            "connect.cassandra.max.retries": "0",
        },
    ),
    "couchbase sink, setting": (
        "CouchbaseSink",
        {
            "couchbase.seed.nodes": "127.0.0.1:1",
            "couchbase.bucket": "b",
            "couchbase.username": "me",
            "couchbase.password": MARK,
            "couchbase.bootstrap.timeout": "1s",
        },
    ),
    "couchbase source, setting": (
        "CouchbaseSource",
        {
            "couchbase.seed.nodes": "127.0.0.1:1",
            "couchbase.bucket": "b",
            "couchbase.username": "me",
            "couchbase.password": MARK,
            "couchbase.bootstrap.timeout": "1s",
            "couchbase.source.handler": HANDLER,
        },
    ),
    "hdfs sink, user info": (
        "HdfsSink",
        {**STORE, "hdfs.url": f"hdfs://me:{MARK}@{PORT}", "retry.backoff.ms": "1"},
    ),
    "websocket source, query": (
        "WebSocketSource",
        {"websocket.url": f"ws://{PORT}/x?token={MARK}", "websocket.topic": "t"},
    ),
    "events source, setting": (
        "SseSource",
        {"sse.url": f"http://me:{MARK}@{PORT}/x?access_token={MARK}", "sse.topic": "t"},
    ),
    "castorm source, setting": (
        "CastormHttpSource",
        {
            "http.request.url": f"http://{PORT}/x?api_key={MARK}",
            "http.auth.type": "Basic",
            "http.auth.user": "me",
            "http.auth.password": MARK,
            "kafka.topic": "t",
        },
    ),
    "ftp source, setting": (
        "FtpSource",
        {
            "connect.ftp.address": PORT,
            "connect.ftp.user": "me",
            "connect.ftp.password": MARK,
            "connect.ftp.refresh": "PT1S",
            "connect.ftp.file.maxage": "P14D",
            "connect.ftp.keystyle": "string",
            "connect.ftp.monitor.update": "/in/:t",
        },
    ),
}


@pytest.fixture(scope="module")
def planner() -> Planner:
    storage = ("config.storage", "offset.storage", "status.storage")
    worker = {
        "bootstrap.servers": PORT,
        "group.id": "g",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **{f"{name}.topic": name for name in storage},
    }
    return Planner(parse_distributed(worker), REGISTRY)


def errors_of(infos: dict[str, Any]) -> Iterator[str]:
    for info in infos["configs"]:
        yield from info["value"]["errors"]


def failures(connector: Any, props: dict[str, str]) -> Iterator[Exception]:
    """The errors of a task that cannot connect."""
    config = connector.plugin.config.parse(props)
    opened: Any = None
    try:
        planned = connector.plan_tasks(config, 1)
        (task, *_) = [connector.plugin.config.parse(each) for each in planned]
        if isinstance(connector, SourceConnector):
            opened = connector.open(task, SourceContextStub())
            opened.poll(1 << 20, 500)
        else:
            assert isinstance(connector, SinkConnector)
            opened = connector.open(task, SinkContextStub())
            opened.assigned({TopicPartition("conformance", 0): 0})
            opened.write(records_of([{"id": 1}], keys=["k"]), {})
            opened.flush()
    except Exception as error:
        yield error
    finally:
        if opened is not None:
            opened.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", CASES)
def test_a_connection_that_fails_shows_no_secret(
    case: str, planner: Planner, caplog: pytest.LogCaptureFixture
) -> None:
    name, given = CASES[case]
    props = {"name": "c", "topics": "conformance", "topic": "t", **given}
    entry = next(entry for entry in REGISTRY.found if entry.cls.__name__ == name)
    props["connector.class"] = entry.plugin.class_name
    infos = planner.validate(props)
    found = [*errors_of(infos)]
    planner.providers.remember(entry.plugin.config.parse(props).secrets())
    for error in failures(entry.cls(), props):
        text = planner.providers.redacted(trace_of(error).text)
        found.append(text)
    assert found or caplog.text, "nothing listens there"
    for text in [*found, planner.providers.redacted(caplog.text)]:
        assert MARK not in text, text
