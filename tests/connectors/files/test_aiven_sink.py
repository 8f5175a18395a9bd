"""Aiven's S3 sink, against moto's server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

import boto3
import pytest
from botocore.config import Config

from penstock.api import Records
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.files.objects import AivenS3Sink
from penstock.connectors.files.settings.aiven import AIVEN_S3_SINK
from penstock.testing.conformance import SinkConformance, records_of
from tests.servers.object_store import INSTALL, FaultyProxy, ObjectStore, is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason=f"{INSTALL} for an S3")

BUCKET = "penstock-tests"
ROW = struct({"id": INT64, "name": STRING}, name="row")
NUMBERS = count()


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture(scope="module")
def client(store: ObjectStore) -> Iterator[Any]:
    client = boto3.client(
        "s3",
        endpoint_url=store.url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}),
    )
    client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()


def settings(url: str) -> dict[str, str]:
    return {
        "aws.s3.bucket.name": BUCKET,
        "aws.s3.endpoint": url,
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret",
        "file.name.template": f"test-{next(NUMBERS)}/"
        "{{topic}}-{{partition}}-{{start_offset:padding=true}}.gz",
        "format.output.type": "jsonl",
        "format.output.envelope": "false",
    }


class TestAivenS3(SinkConformance):
    connector = AivenS3Sink
    idempotent = False
    ordered = False
    bad_configs = (
        ({"aws.s3.bucket.name": None}, "aws.s3.bucket.name"),
        ({"aws.s3.endpoint": "localhost:9000"}, "aws.s3.endpoint"),
        ({"file.name.template": "x"}, "file.name.template"),
        ({"file.max.records": "-1"}, "file.max.records"),
    )

    @pytest.fixture(autouse=True)
    def _store(
        self, store: ObjectStore, client: Any, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        self.proxy, self.client = FaultyProxy(store.port), client
        # The proxy is in this process, whose open files are counted.
        away = "unreachable" in request.node.name or "fatal" in request.node.name
        self.given = {**settings(self.proxy.url if away else store.url), "errors.tolerance": "all"}
        yield
        self.proxy.close()

    def config(self) -> dict[str, str]:
        return self.given

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        kind = ROW if schema else None
        return records_of(rows, schema=kind, keys=list(numbers), first=numbers.start)

    def contents(self) -> list[Any]:
        prefix = self.given["file.name.template"].partition("{{")[0]
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
        texts = [
            gzip.decompress(self.client.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read())
            for each in found
        ]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    def bad_records(self) -> Records | None:
        return records_of([{"id": 1, "name": "\ud800"}, {"id": 2, "name": "\udfff"}], schema=ROW)

    def unreachable_target(self) -> AbstractContextManager[object] | None:
        return self._answering("SlowDown 503")

    def refusing_target(self) -> AbstractContextManager[object] | None:
        return self._answering("AccessDenied 403")

    @contextmanager
    def _answering(self, error: str) -> Iterator[None]:
        """The store answers every request with an error."""
        self.proxy.fault = lambda method, path: f"answer {error}"
        try:
            yield
        finally:
            self.proxy.fault = lambda method, path: None


def test_a_missing_bucket_is_reported(store: ObjectStore) -> None:
    given = {**settings(store.url), "aws.s3.bucket.name": "no-such-bucket"}
    (finding,) = AivenS3Sink().validate_live(AIVEN_S3_SINK.parse(given))
    assert finding.setting == "aws.s3.bucket.name"


def test_a_good_configuration_is_told_to_be_one(store: ObjectStore, client: Any) -> None:
    assert client is not None  # which has made the bucket
    assert list(AivenS3Sink().validate_live(AIVEN_S3_SINK.parse(settings(store.url)))) == []
