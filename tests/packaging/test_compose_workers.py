"""The workers and the demo of compose.yaml, as processes with its commands and variables: rows of
PostgreSQL become files in an S3 store. Only addresses and the rotation interval differ."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import boto3
import psutil
import pyarrow.parquet as pq
import pytest
import yaml

from penstock.kafka.broker import Broker, free_port
from penstock.testing.processes import STOP_S
from penstock.testing.waiting import wait_until
from tests.places import ROOT
from tests.servers.databases import DatabaseServer
from tests.servers.object_store import INSTALL, ObjectStore, is_installed

from .test_container import COMMAND, environ

pytestmark = [
    pytest.mark.slow(60),
    pytest.mark.skipif(not is_installed(), reason=f"{INSTALL} for an S3"),
    pytest.mark.timeout(400),
]

SERVICES: Final[Mapping[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
ROWS: Final = 10_000
SECRET: Final = "penstock-secret"


@pytest.fixture
def shop(postgresql: DatabaseServer) -> Iterator[DatabaseServer]:
    """The database of the demo, with its rows."""
    script = re.sub(r"--.*", "", (ROOT / "packaging" / "demo" / "shop.sql").read_text())
    connection = postgresql.connect()
    try:
        for statement in filter(str.strip, script.split(";")):
            connection.execute(statement)
        yield postgresql
        connection.execute("DROP TABLE orders")
    finally:
        connection.close()


@pytest.fixture
def bucket() -> Iterator[Any]:
    """The bucket of the demo."""
    with ObjectStore() as store:
        resource = boto3.resource(
            "s3",
            endpoint_url=store.url,
            region_name="us-east-1",
            aws_access_key_id="penstock",
            aws_secret_access_key=SECRET,
        )
        yield resource.create_bucket(Bucket="lake")
        resource.meta.client.close()


def connectors(folder: Path, shop: DatabaseServer, store: str) -> Path:
    """The connectors of the demo, with the addresses of this machine."""
    folder.mkdir()
    for file in (ROOT / "packaging" / "demo" / "connectors").iterdir():
        wanted = json.loads(file.read_text())
        if wanted["name"] == "shop-orders":
            wanted["config"] |= {"connection.url": shop.url, "connection.user": shop.user}
        else:
            wanted["config"] |= {"store.url": store, "rotate.schedule.interval.ms": "5000"}
        (folder / file.name).write_text(json.dumps(wanted))
    return folder


def rows(bucket: Any) -> list[int]:
    """The ids of all rows in the store."""
    return [
        number
        for each in bucket.objects.all()
        for number in pq.read_table(io.BytesIO(each.get()["Body"].read())).column("id").to_pylist()
    ]


def test_the_demo_moves_rows_into_the_store(
    broker: Broker, shop: DatabaseServer, bucket: Any, tmp_path: Path
) -> None:
    urls: dict[str, str] = {}
    with ExitStack() as stack:
        for name in sorted(each for each in SERVICES if each.startswith("worker-")):
            urls[name] = f"http://127.0.0.1:{free_port()}"
            given = {
                **SERVICES[name]["environment"],
                "CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap,
                "CONNECT_LISTENERS": urls[name],
                "CONNECT_REST_ADVERTISED_HOST_NAME": "127.0.0.1",
                "CONNECT_OFFSET_FLUSH_INTERVAL_MS": "1000",
                "DEMO_POSTGRES_PASSWORD": shop.password,
                "DEMO_S3_SECRET": SECRET,
                "KAFKA_HEAP_OPTS": "-Xmx480M",
            }
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            process = psutil.Popen(
                COMMAND, env=environ(**given), cwd=tmp_path, stdout=log, stderr=log
            )
            stack.callback(process.wait, STOP_S)
            stack.callback(process.terminate)
        for url in urls.values():
            health = [sys.executable, "-m", "penstock", "health", "--url", url]
            wait_until(
                lambda: subprocess.run(health, capture_output=True).returncode == 0,  # noqa: B023
                100,
                "health",
                poll_s=1,
            )
        demo = connectors(tmp_path / "demo", shop, bucket.meta.client.meta.endpoint_url)
        command = " ".join(SERVICES["demo"]["command"]).replace("/demo", str(demo))
        for name, url in urls.items():
            command = command.replace(f"http://{name}:8083", url)
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *command.split()],
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "8083" not in command
        wait_until(lambda: len(rows(bucket)) >= ROWS, 120, "all rows", poll_s=2)
        assert sorted(rows(bucket)) == list(range(1, ROWS + 1))
