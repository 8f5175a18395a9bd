"""S3, Google Cloud Storage and Azure Blob Storage for tests: a small server of each, or the
emulator that PENSTOCK_S3_URL, PENSTOCK_GCS_URL or PENSTOCK_AZURE_URL names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from penstock.api import SinkConnector, SourceConnector
from penstock.connectors.files.objects import (
    AzureBlobSink,
    AzureBlobSource,
    GcsSink,
    GcsSource,
    S3Sink,
    S3Source,
)
from tests.servers.azure_server import ACCOUNT, KEY, azure_server
from tests.servers.gcs_server import gcs_server
from tests.servers.object_store import ObjectStore

BUCKET = "penstock-tests"
NUMBERS = count()
RUN = uuid4().hex[:8]  # an emulator may have objects of other runs


class Objects:
    """The objects of a bucket, as the vendor's client sees them."""

    def __init__(self, url: str) -> None:
        self.url = url

    def put(self, name: str, data: bytes) -> None:
        """Stores an object."""
        raise NotImplementedError

    def names(self, prefix: str) -> list[str]:
        """The names of objects, in order."""
        raise NotImplementedError

    def get(self, name: str) -> bytes:
        """An object's contents."""
        raise NotImplementedError

    def delete(self, name: str) -> None:
        """Deletes an object."""
        raise NotImplementedError

    def make_bucket(self) -> None:
        """Makes the bucket."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases connections."""
        raise NotImplementedError

    def under(self, root: str) -> dict[str, bytes]:
        """Objects by name below a folder."""
        return {name.removeprefix(f"{root}/"): self.get(name) for name in self.names(f"{root}/")}


class GcsObjects(Objects):
    def __init__(self, url: str) -> None:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        super().__init__(url)
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        self._client = Client("none", anonymous, client_options={"api_endpoint": url})
        self._bucket = self._client.bucket(BUCKET)

    def put(self, name: str, data: bytes) -> None:
        self._bucket.blob(name).upload_from_string(data)

    def names(self, prefix: str) -> list[str]:
        return [each.name for each in self._client.list_blobs(BUCKET, prefix=prefix)]

    def get(self, name: str) -> bytes:
        data: bytes = self._bucket.blob(name).download_as_bytes(retry=None, raw_download=True)
        return data

    def encoding(self, name: str) -> str | None:
        """The Content-Encoding of an object."""
        encoding: str | None = self._bucket.get_blob(name).content_encoding
        return encoding

    def delete(self, name: str) -> None:
        self._bucket.blob(name).delete()

    def make_bucket(self) -> None:
        self._client.create_bucket(BUCKET)

    def close(self) -> None:
        self._client.close()


class AzureObjects(Objects):
    def __init__(self, url: str) -> None:
        from azure.storage.blob import ContainerClient

        super().__init__(url)
        credential = {"account_name": ACCOUNT, "account_key": KEY}
        self._container = ContainerClient(f"{url}/{ACCOUNT}", BUCKET, credential)

    def put(self, name: str, data: bytes) -> None:
        self._container.upload_blob(name, data, overwrite=True)

    def names(self, prefix: str) -> list[str]:
        return [each.name for each in self._container.list_blobs(prefix)]

    def get(self, name: str) -> bytes:
        data: bytes = self._container.download_blob(name).readall()
        return data

    def has_uncommitted_blocks(self, name: str) -> bool:
        _, uncommitted = self._container.get_blob_client(name).get_block_list("uncommitted")
        return bool(uncommitted)

    def delete(self, name: str) -> None:
        self._container.delete_blob(name)

    def make_bucket(self) -> None:
        self._container.create_container()

    def close(self) -> None:
        self._container.close()


class S3Objects(Objects):
    def __init__(self, url: str) -> None:
        import boto3

        super().__init__(url)
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        self._client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys)

    def put(self, name: str, data: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=name, Body=data)

    def names(self, prefix: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def get(self, name: str) -> bytes:
        data: bytes = self._client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        return data

    def delete(self, name: str) -> None:
        self._client.delete_object(Bucket=BUCKET, Key=name)

    def make_bucket(self) -> None:
        self._client.create_bucket(Bucket=BUCKET)

    def close(self) -> None:
        self._client.close()


@contextmanager
def s3_server(bucket: str) -> Iterator[ObjectStore]:
    """Moto's server, with a bucket."""
    with ObjectStore() as server:
        objects = S3Objects(server.url)
        objects.make_bucket()
        objects.close()
        yield server


@dataclass(frozen=True, slots=True)
class Kind:
    """A vendor's store, and the connectors to it."""

    name: str
    sink: type[SinkConnector]
    source: type[SourceConnector]
    objects: type[Objects]
    server: Any
    environment: str
    bucket: str
    """The setting of the bucket, or container."""
    part: str
    retries: str

    def settings(self, url: str, **changes: str) -> dict[str, str]:
        """Settings of a sink or a source."""
        if self.name == "gcs":
            its = {
                "gcs.bucket.name": BUCKET,
                "store.url": url,
                "penstock.gcs.anonymous": "true",
                "gcs.part.retries": "0",
            }
        elif self.name == "s3":
            its = {
                "s3.bucket.name": BUCKET,
                "s3.region": "us-east-1",
                "aws.access.key.id": "test",
                "aws.secret.access.key": "test",
                "store.url": url,
                "s3.part.retries": "0",
            }
        else:
            its = {
                "azblob.account.name": ACCOUNT,
                "azblob.account.key": KEY,
                "azblob.container.name": BUCKET,
                "store.url": f"{url}/{ACCOUNT}",
                "azblob.retry.retries": "1",
                "azblob.retry.backoff.ms": "0",
            }
        return {
            **its,
            "format.class": "JsonFormat",
            "topics.dir": f"test-{RUN}-{next(NUMBERS)}",
            **{name.replace("_", "."): value for name, value in changes.items()},
        }


@dataclass(frozen=True, slots=True)
class Running:
    """A running store."""

    kind: Kind
    url: str
    objects: Objects

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80


S3 = Kind(
    "s3",
    S3Sink,
    S3Source,
    S3Objects,
    s3_server,
    "PENSTOCK_S3_URL",
    "s3.bucket.name",
    "s3.part.size",
    "s3.part.retries",
)
GCS = Kind(
    "gcs",
    GcsSink,
    GcsSource,
    GcsObjects,
    gcs_server,
    "PENSTOCK_GCS_URL",
    "gcs.bucket.name",
    "gcs.part.size",
    "gcs.part.retries",
)
AZURE = Kind(
    "azure",
    AzureBlobSink,
    AzureBlobSource,
    AzureObjects,
    azure_server,
    "PENSTOCK_AZURE_URL",
    "azblob.container.name",
    "azblob.block.size",
    "azblob.retry.retries",
)


@contextmanager
def running(kind: Kind) -> Iterator[Running]:
    """A store with a bucket, until the block is left."""
    url = os.environ.get(kind.environment)
    if url is not None:
        objects = kind.objects(url)
        with suppress(Exception):  # it exists
            objects.make_bucket()
        yield Running(kind, url, objects)
        objects.close()
        return
    with kind.server(BUCKET) as server:
        objects = kind.objects(server.url)
        yield Running(kind, server.url, objects)
        objects.close()
