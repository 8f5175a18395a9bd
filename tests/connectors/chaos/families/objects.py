"""Sinks that write objects under chaos."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

import boto3
import orjson
from botocore.config import Config

from tests.servers.object_store import FaultyProxy, ObjectStore

from .base import JSON, Family


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
