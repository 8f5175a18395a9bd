"""Files into topics, next to a loop written by hand.

The loop is a user's program without a connector: one process with boto3 or a file, pyarrow, orjson
and librdkafka's producer. Kafka Connect's distribution has no such connectors.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import boto3
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from botocore.config import Config
from confluent_kafka import Producer

from benchmarks import inputs
from benchmarks.inputs import WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import Load, Note, Scenario, delete_topics, note_curve
from benchmarks.watching import Curve, topic_ends, watch
from tests.servers.object_store import ObjectStore

_FILES: Final = 8
_BUCKET: Final = "bench"
_KEYS: Final = re.compile(rb'"id":(\d+)')
_SCHEMA: Final = orjson.dumps(
    {
        "name": "row",
        "type": "STRUCT",
        "fieldSchemas": {
            "id": {"type": "INT64"},
            "name": {"type": "STRING", "isOptional": True},
            "score": {"type": "FLOAT64", "isOptional": True},
            "active": {"type": "BOOLEAN", "isOptional": True},
        },
    }
).decode()
_SPOOLDIR: Final = "com.github.jcustenborder.kafka.connect.spooldir"
_CSV: Final = {
    "csv.first.row.as.header": "true",
    "value.schema": _SCHEMA,
    "cleanup.policy": "NONE",
}
_PLAIN_JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}

Rows = Callable[[bytes], Iterator[bytes]]


def _table(begin: int, end: int) -> pa.Table:
    ids = np.arange(begin, end)
    return pa.table(
        {
            "id": ids,
            "name": [f"user-{number % 1_000}" for number in ids],
            "score": (ids % 500) + 0.5,
            "active": ids % 2 == 0,
        }
    )


def _json(table: pa.Table) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in table.to_pylist())


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=100_000)
    return out.getvalue()


def _csv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pa_csv.write_csv(table, out)
    return out.getvalue()


def _json_rows(data: bytes) -> Iterator[bytes]:
    return iter(data.splitlines())


def _parquet_rows(data: bytes) -> Iterator[bytes]:
    for batch in pq.ParquetFile(io.BytesIO(data)).iter_batches(10_000):
        yield from map(orjson.dumps, batch.to_pylist())


def _csv_rows(data: bytes) -> Iterator[bytes]:
    for batch in pa_csv.open_csv(io.BytesIO(data)):
        yield from map(orjson.dumps, batch.to_pylist())


@dataclass(frozen=True, slots=True)
class Case:
    """Files of one format, in a bucket or a folder."""

    ending: str
    write: Callable[[pa.Table], bytes]
    rows: Rows
    settings: dict[str, str]
    in_bucket: bool


CASES: Final = {
    "s3-json": Case(".json", _json, _json_rows, {"format.class": "JsonFormat"}, True),
    "s3-parquet": Case(
        ".parquet", _parquet, _parquet_rows, {"format.class": "ParquetFormat"}, True
    ),
    "csv": Case(
        ".csv",
        _csv,
        _csv_rows,
        {
            "connector.class": "io.penstock.files.LocalFileSourceConnector",
            "format.class": "CsvFormat",
            **_CSV,
        },
        False,
    ),
    "spooldir-csv": Case(
        ".csv",
        _csv,
        _csv_rows,
        {"connector.class": f"{_SPOOLDIR}.SpoolDirCsvSourceConnector", **_CSV},
        False,
    ),
}


def _measure(case: Case) -> Callable[[Session, Load, Note], None]:
    def measure(session: Session, load: Load, note: Note) -> None:
        contents = [
            case.write(_table(load.records * at // _FILES, load.records * (at + 1) // _FILES))
            for at in range(_FILES)
        ]
        with _placed(case, session, contents) as (config, get):
            for run in ("cold", "warm"):
                note_curve(note, run, _through(session, load, config))
            note("floor.loop", load.records / _loop_s(session, case, get))

    return measure


@contextlib.contextmanager
def _placed(
    case: Case, session: Session, contents: list[bytes]
) -> Iterator[tuple[dict[str, str], list[Callable[[], bytes]]]]:
    """A connector's configuration for the files, and for each a function that reads it."""
    if not case.in_bucket:
        folder = session.folder / "in"
        errors = session.folder / "errors"
        folder.mkdir()
        errors.mkdir()
        files = [folder / f"{at:03}{case.ending}" for at in range(len(contents))]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        config = {
            "input.path": str(folder),
            "input.file.pattern": ".*",
            "error.path": str(errors),
            **case.settings,
        }
        yield config, [file.read_bytes for file in files]
        return
    with ObjectStore() as store:
        client = boto3.client(
            "s3",
            endpoint_url=store.url,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(s3={"addressing_style": "path"}),
        )
        client.create_bucket(Bucket=_BUCKET)
        names = [f"in/{at:03}{case.ending}" for at in range(len(contents))]
        for name, content in zip(names, contents, strict=True):
            client.put_object(Bucket=_BUCKET, Key=name, Body=content)
        config = {
            "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
            "mode": "GENERIC",
            "s3.bucket.name": _BUCKET,
            "s3.region": "us-east-1",
            "store.url": store.url,
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            "topics.dir": "in",
            **case.settings,
        }
        yield config, [_getter(client, name) for name in names]
        client.close()


def _getter(client: Any, name: str) -> Callable[[], bytes]:
    def get() -> bytes:
        data: bytes = client.get_object(Bucket=_BUCKET, Key=name)["Body"].read()
        return data

    return get


def _through(session: Session, load: Load, config: dict[str, str]) -> Curve:
    name = session.name("rows")
    session.topics.create(name)
    aim = {"topic.regex.list": f"{name}:.*"} if "mode" in config else {"topic": name}
    ends = topic_ends(session.topics, [name])
    own_config = {**config, **aim, **_PLAIN_JSON, "tasks.max": "2"}
    with session.running({name: own_config}) as began:
        curve = watch(ends, load.records, began, load.timeout_s, session.check)
    _check(session, name, load.records)
    delete_topics(session.topics, [name])
    return curve


def _loop_s(session: Session, case: Case, files: list[Callable[[], bytes]]) -> float:
    """How long the loop takes."""
    name = session.name("loop")
    session.topics.create(name)
    producer = Producer(
        {
            "bootstrap.servers": session.topics.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
        }
    )
    began = time.monotonic()
    for get in files:
        for value in case.rows(get()):
            while True:
                try:
                    producer.produce(name, value)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
    producer.flush()
    took_s = time.monotonic() - began
    delete_topics(session.topics, [name])
    return took_s


def _check(session: Session, topic: str, records: int) -> None:
    numbers = [
        np.array(_KEYS.findall(b"\n".join(block)), dtype=bytes).astype(np.int64)
        for block in inputs.values_of(session.topics, topic)
    ]
    ids = np.sort(np.concatenate(numbers))
    if not np.array_equal(ids, np.arange(records)):
        raise WrongOutcome(f"{records:,} rows were read, {len(ids):,} records came")


SCENARIOS: Final = (
    Scenario("s3-json-read", "S3, JSON lines → topic", _measure(CASES["s3-json"]), alone=True),
    Scenario("s3-parquet-read", "S3, Parquet → topic", _measure(CASES["s3-parquet"]), alone=True),
    Scenario("csv-read", "folder, CSV → topic", _measure(CASES["csv"]), alone=True),
    Scenario(
        "csv-headers-read",
        "folder, CSV → topic, with spooldir's eight headers",
        _measure(CASES["spooldir-csv"]),
        alone=True,
    ),
)
