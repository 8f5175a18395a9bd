"""Sinks that write objects under chaos.

The stores keep objects in memory, so they are never killed. They enforce no policy; a front denies
access in their place.
"""

from __future__ import annotations

import gzip
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import boto3
import fastavro
import orjson
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from tests.servers.azure_server import ACCOUNT, KEY, azure_server
from tests.servers.gcs_server import gcs_server
from tests.servers.object_store import FaultyProxy, ObjectStore

from .base import JSON, Family

BUCKET: Final = "lake"

PLAIN: Final[Mapping[str, str]] = {
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
"""Values without their schemas."""

BY_COUNT_AND_TIME: Final[Mapping[str, str]] = {
    "flush.size": "50",
    "rotate.schedule.interval.ms": "2000",
    "timezone": "UTC",
}

BY_RECORD_TIME: Final[Mapping[str, str]] = {
    "flush.size": "1000",
    "rotate.interval.ms": "1500",
    "rotate.schedule.interval.ms": "4000",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "partition.duration.ms": "60000",
    "path.format": "'at'=YYYYMMddHHmm",
    "locale": "en-US",
    "timezone": "UTC",
    "timestamp.extractor": "Record",
}
"""Files end when a record is 1.5 s younger than their first one; the last ones by the clock."""


def rows_of(name: str, data: bytes) -> Iterator[Mapping[str, Any]]:
    """The records of a file, by its ending."""
    if name.endswith(".gz"):
        name, data = name.removesuffix(".gz"), gzip.decompress(data)
    if name.endswith(".parquet"):
        yield from pq.ParquetFile(BytesIO(data)).read().to_pylist()
    elif name.endswith(".avro"):
        for row in fastavro.reader(BytesIO(data)):
            assert isinstance(row, dict)
            yield row
    else:
        yield from map(orjson.loads, data.splitlines())


class Files(Family):
    """Append-only: each record in a file, in the order of its partition. A file is complete or not
    there. With names by offset and boundaries by count a record is there once; where files end by
    the clock it may be there again."""

    keyed = deletes = reports = False
    blocks = True

    @abstractmethod
    def files(self) -> Iterable[tuple[str, bytes]]:
        """Names and contents."""

    def stored(self) -> Iterable[tuple[str, int]]:
        for name, data in sorted(self.files()):
            for row in rows_of(name, data):
                self.check_place(name, row)
                yield row["id"], int(row["n"])

    def check_place(self, name: str, row: Mapping[str, Any]) -> None:
        """Fails if a record is in a file where it does not belong."""


class Objects(Files):
    """Files of an object store."""

    kills = False

    def __init__(self, port: int) -> None:
        self._front = FaultyProxy(port)

    @property
    def port(self) -> int:
        port = urlsplit(self._front.url).port
        assert port is not None
        return port

    def prepare(self, topic: str) -> None:
        """The bucket is there."""

    def refuse(self, keys: Iterable[str]) -> None:
        writes = ("PUT", "POST")
        self._front.fault = lambda method, path: (
            "answer AccessDenied 403" if method in writes else None
        )

    def mend(self) -> None:
        self._front.fault = lambda method, path: None

    def kill(self) -> None:
        raise NotImplementedError("it would forget its objects")

    def start(self) -> None:
        raise NotImplementedError("it was not killed")

    def close(self) -> None:
        self._front.close()


class S3(Objects):
    """Confluent's sink to an S3."""

    format = "json.JsonFormat"
    ends: ClassVar[Mapping[str, str]] = BY_COUNT_AND_TIME

    def __init__(self) -> None:
        self._store = ObjectStore()
        super().__init__(self._store.port)
        self._client = boto3.client(
            "s3",
            endpoint_url=self._store.url,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(s3={"addressing_style": "path"}),
        )
        self._client.create_bucket(Bucket=BUCKET)

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "s3.bucket.name": BUCKET,
            "s3.region": "us-east-1",
            "store.url": f"http://127.0.0.1:{port}",
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": f"io.confluent.connect.s3.format.{self.format}",
            "s3.part.retries": "1",
            "s3.retry.backoff.ms": "100",
            **self.ends,
            **({"value.converter": JSON} if self.schema else PLAIN),
        }

    def files(self) -> Iterable[tuple[str, bytes]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        for page in pages:
            for entry in page.get("Contents", ()):
                body = self._client.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read()
                yield entry["Key"], body

    def close(self) -> None:
        self._client.close()
        super().close()
        self._store.close()


class S3Parquet(S3):
    """Parquet files that end by the records' time, and in the end by the clock: then a task that
    takes over may end them elsewhere, and a record may be there again."""

    schema = True
    format = "parquet.ParquetFormat"
    ends = BY_RECORD_TIME


class AivenS3(S3):
    """Aiven's sink: a commit ends the objects, so a record may be there again."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
            "aws.s3.bucket.name": BUCKET,
            "aws.s3.endpoint": f"http://127.0.0.1:{port}",
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            "aws.s3.backoff.max.retries": "1",
            "file.name.template": "{{topic}}-{{partition}}-{{start_offset:padding=true}}.jsonl.gz",
            "format.output.type": "jsonl",
            "format.output.fields": "value",
            "format.output.envelope": "false",
            **PLAIN,
        }


class Gcs(Objects):
    """Confluent's sink to Google Cloud Storage, with Avro files."""

    schema = True

    def __init__(self) -> None:
        self._store = gcs_server(BUCKET)
        super().__init__(self._store.port)
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        self._client = Client("none", anonymous, client_options={"api_endpoint": self._store.url})

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.gcs.GcsSinkConnector",
            "gcs.bucket.name": BUCKET,
            "store.url": f"http://127.0.0.1:{port}",
            "penstock.gcs.anonymous": "true",
            "gcs.part.retries": "1",
            "format.class": "io.confluent.connect.gcs.format.avro.AvroFormat",
            "value.converter": JSON,
            **BY_COUNT_AND_TIME,
        }

    def files(self) -> Iterable[tuple[str, bytes]]:
        for blob in self._client.list_blobs(BUCKET):
            yield blob.name, blob.download_as_bytes(retry=None)

    def close(self) -> None:
        self._client.close()
        super().close()
        self._store.close()


class Azure(Objects):
    """Confluent's sink to Azure Blob Storage."""

    def __init__(self) -> None:
        self._store = azure_server(BUCKET)
        super().__init__(self._store.port)
        credential = {"account_name": ACCOUNT, "account_key": KEY}
        self._container = ContainerClient(f"{self._store.url}/{ACCOUNT}", BUCKET, credential)

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector",
            "azblob.account.name": ACCOUNT,
            "azblob.account.key": KEY,
            "azblob.container.name": BUCKET,
            "store.url": f"http://127.0.0.1:{port}/{ACCOUNT}",
            "azblob.retry.retries": "1",
            "azblob.retry.backoff.ms": "100",
            "format.class": "io.confluent.connect.azure.blob.format.json.JsonFormat",
            **BY_COUNT_AND_TIME,
            **PLAIN,
        }

    def files(self) -> Iterable[tuple[str, bytes]]:
        for blob in self._container.list_blobs():
            yield blob.name, self._container.download_blob(blob.name).readall()

    def close(self) -> None:
        self._container.close()
        super().close()
        self._store.close()
