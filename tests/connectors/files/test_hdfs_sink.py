"""The sink to HDFS, against Hadoop's MiniDFSCluster, and against a local folder."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from penstock.api import Failed, Records, TopicPartition, Unavailable
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.files.hdfs import Hdfs3Sink, HdfsSink
from penstock.connectors.files.settings.hdfs import HDFS_SINK
from penstock.connectors.files.stores.hadoop import Hadoop, HadoopOptions
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from tests.servers.hadoop import HadoopServer

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow(110)]

AT = TopicPartition("orders", 7)
ROW = struct({"id": INT64, "name": STRING}, name="row")
NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[HadoopServer]:
    with HadoopServer() as running:
        yield running


@pytest.fixture(scope="module")
def hadoop(server: HadoopServer) -> Iterator[Hadoop]:
    client = Hadoop(HadoopOptions(server.url))
    yield client
    client.close()


def settings(url: str, **changes: str) -> dict[str, str]:
    return {
        "store.url": url,
        "format.class": "io.confluent.connect.hdfs.json.JsonFormat",
        "flush.size": "3",
        "topics.dir": f"test-{next(NUMBERS)}",
        "logs.dir": f"logs-{next(NUMBERS)}",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def files(hadoop: Hadoop, folder: str) -> dict[str, bytes]:
    """The files below a folder, by relative name."""
    found: dict[str, bytes] = {}
    for entry in hadoop.entries(folder):
        name = entry.path.removeprefix(f"{folder}/")
        if entry.is_folder:
            below = files(hadoop, entry.path)
            found |= {f"{name}/{each}": data for each, data in below.items()}
        else:
            found[name] = hadoop.read(entry.path)
    return found


class TestHdfs(SinkConformance):
    connector = HdfsSink
    idempotent = True
    ordered = False
    url: ClassVar[str]
    bad_configs = (
        ({"store.url": None}, "store.url"),
        ({"store.url": "/var/lake"}, "store.url"),
        ({"hive.integration": "true"}, "hive.integration"),
        ({"hdfs.authentication.kerberos": "true"}, "connect.hdfs.principal"),
        ({"topics.dir": "${topic}"}, "topics.dir"),
        ({"logs.dir": ""}, "logs.dir"),
        ({"file.delim": "_"}, "file.delim"),
        ({"flush.size": None}, "flush.size"),
    )

    @pytest.fixture(autouse=True)
    def _store(self, server: HadoopServer, hadoop: Hadoop) -> None:
        self.server, self.hadoop = server, hadoop
        self.given = settings(server.url, flush_size="1", errors_tolerance="all")

    def config(self) -> dict[str, str]:
        return self.given

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        kind = ROW if schema else None
        return records_of(rows, schema=kind, keys=list(numbers), first=numbers.start)

    def contents(self) -> list[Any]:
        found = files(self.hadoop, f"/{self.given['topics.dir']}")
        names = sorted(name for name in found if not name.startswith("+tmp"))
        return [json.loads(line) for name in names for line in found[name].splitlines()]

    def bad_records(self) -> Records | None:
        return records_of([{"id": 1, "name": "\ud800"}, {"id": 2, "name": "\udfff"}], schema=ROW)

    def unreachable_target(self) -> AbstractContextManager[object] | None:
        @contextmanager
        def away() -> Iterator[None]:
            self.server.set_safe_mode(True)
            try:
                yield
            finally:
                self.server.set_safe_mode(False)

        return away()

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        """Nobody but the superuser may enter the root folder."""
        self.server.make_folder("/", "000")
        try:
            yield
        finally:
            self.server.make_folder("/", "777")


class Task:
    """A writer, called as a worker calls it."""

    def __init__(self, props: dict[str, str], committed: int = 0) -> None:
        self.root = f"/{props['topics.dir']}"
        self.context = SinkContextStub()
        self.writer = HdfsSink().open(HDFS_SINK.parse(props), self.context)
        self.next = committed
        self.writer.assigned({AT: committed})
        self.seek()

    def seek(self) -> bool:
        if not self.context.sought:
            return False
        self.next = self.context.sought[-1][AT]
        self.context.sought.clear()
        return True

    def write(self, stop: int, size: int = 0) -> None:
        while self.next < stop:
            upto = min(self.next + 100, stop)
            rows = [
                {"id": at, "name": f"{at:x}" * size if size else f"row {at}"}
                for at in range(self.next, upto)
            ]
            records = records_of(rows, schema=ROW, topic=AT.topic, first=self.next)
            records.partitions = [AT.partition] * len(records)
            failed: Failed = {}
            self.writer.write(records, failed)
            assert failed == {}
            if not self.seek():
                self.next = upto

    def committed(self) -> int | None:
        self.writer.flush()
        if self.seek():
            return None
        return self.writer.pre_commit({AT: self.next}).get(AT)

    def finish(self, stop: int) -> int | None:
        self.write(stop)
        return self.committed()

    def close(self) -> None:
        self.writer.close()


def persist(call: Callable[[], object], tries: int = 200) -> int:
    """Retries while the store is unreachable, as the engine does; how often."""
    for away in range(tries):
        try:
            call()
        except Unavailable:
            threading.Event().wait(0.1)
        else:
            return away
    raise AssertionError("it never comes back")


def ids(data: bytes) -> list[int]:
    return [json.loads(line)["id"] for line in data.splitlines()]


def check(found: dict[str, bytes], stop: int) -> None:
    assert [at for name in sorted(found) for at in ids(found[name])] == list(range(stop))


def test_names_are_those_of_confluent(server: HadoopServer, hadoop: Hadoop) -> None:
    props = settings(
        server.url,
        format_class="io.confluent.connect.hdfs.parquet.ParquetFormat",
        partitioner_class="io.confluent.connect.storage.partitioner.HourlyPartitioner",
        timestamp_extractor="Record",
        timezone="UTC",
    )
    task = Task(props)
    task.write(6)
    assert task.committed() == 6
    task.close()
    found = files(hadoop, task.root)
    folder = "orders/year=2023/month=11/day=14/hour=22"
    assert sorted(found) == [
        f"{folder}/orders+7+0000000000+0000000002.parquet",
        f"{folder}/orders+7+0000000003+0000000005.parquet",
    ]
    rows = pq.ParquetFile(BytesIO(found[sorted(found)[1]])).read().to_pylist()
    assert [row["id"] for row in rows] == [3, 4, 5]


def test_a_task_continues_where_names_say(server: HadoopServer, hadoop: Hadoop) -> None:
    props = settings(server.url)
    Task(props).write(3)
    first = Task(props)
    first.write(8)
    assert first.committed() == 6
    for committed in (0, 6, 8):  # the first task still exists
        task = Task(props, committed)
        assert task.next == 6
    task.write(9)
    assert task.committed() == 9
    first.next = 8
    with pytest.raises((StoreRefused, StoreUnavailable)):
        first.finish(9)
    task.close()
    check(files(hadoop, f"{task.root}/orders"), 9)


@pytest.mark.parametrize(
    "value", ["a:b/c\\d", "..", "ü€😀", " blank ", "50%", "a\nb", "[x]{y}*?", "", "#frag?q"]
)
def test_any_text_names_a_folder(server: HadoopServer, hadoop: Hadoop, value: str) -> None:
    props = settings(
        server.url,
        flush_size="1",
        partitioner_class="FieldPartitioner",
        partition_field_name="name",
    )
    task = Task(props)
    records = records_of([{"id": 0, "name": value}], schema=ROW, topic=AT.topic)
    records.partitions = [7]
    failed: Failed = {}
    task.writer.write(records, failed)
    assert failed == {}
    task.next = 1
    assert task.committed() == 1
    (name,) = hadoop.names(f"{task.root}/orders")
    assert name == "orders+7+0000000000+0000000000.json"
    task.close()
    assert Task(props).next == 1


def test_a_file_larger_than_memory_is_written_all_along(
    server: HadoopServer, hadoop: Hadoop
) -> None:
    props = settings(server.url, flush_size="1000")
    task = Task(props)
    task.write(1000, size=2000)
    assert task.committed() == 1000
    task.close()
    (data,) = files(hadoop, f"{task.root}/orders").values()
    assert len(data) > 4_000_000
    assert ids(data) == list(range(1000))


def test_a_namenode_that_restarts_while_files_are_written(
    server: HadoopServer, hadoop: Hadoop
) -> None:
    props = settings(server.url, flush_size="500")
    task = Task(props)
    task.write(700, size=1000)
    server.stop_namenode()
    restart = threading.Timer(3, server.start_namenode)
    restart.start()
    away = 0
    while task.next < 3000:
        away += persist(lambda: task.write(min(task.next + 300, 3000), size=1000))
        away += persist(task.committed)
    restart.join()
    while persist(task.committed) or task.next < 3000:
        persist(lambda: task.write(3000, size=1000))
    assert task.committed() == 3000
    task.close()
    check(files(hadoop, f"{task.root}/orders"), 3000)


def test_a_datanode_that_dies_while_a_file_is_written(server: HadoopServer, hadoop: Hadoop) -> None:
    props = settings(server.url, flush_size="3000")
    task = Task(props)
    task.write(1500, size=1000)
    server.stop_datanode()
    try:
        for _ in range(4):
            with suppress(Unavailable):
                task.finish(min(task.next + 300, 2900))
    finally:
        server.start_datanode()
    while persist(task.committed) or task.next < 3000:
        persist(lambda: task.write(3000, size=1000))
    assert task.committed() == 3000
    task.close()
    (data,) = files(hadoop, f"{task.root}/orders").values()
    assert ids(data) == list(range(3000))


def test_the_lost_answer_to_the_creation_of_a_file_is_survived(
    server: HadoopServer, hadoop: Hadoop
) -> None:
    # The namenode has the file, open and with the lease of this very client.
    with Proxy(server.port) as proxy:
        task = Task(settings(f"hdfs://127.0.0.1:{proxy.port}"))
        task.write(3)
        assert task.committed() == 3
        proxy.lose_answers()
        with pytest.raises(Unavailable):
            task.finish(6)
        assert proxy.lost
        proxy.restore()
        persist(lambda: task.finish(6))
        task.close()
    check(files(hadoop, f"{task.root}/orders"), 6)


def test_safe_mode_is_waited_for(server: HadoopServer, hadoop: Hadoop) -> None:
    props = settings(server.url)
    task = Task(props)
    server.set_safe_mode(True)
    try:
        task.write(3)
        with pytest.raises(StoreUnavailable, match="safe mode"):
            task.committed()
        assert task.writer.pre_commit({AT: 3}) == {}
    finally:
        server.set_safe_mode(False)
    assert task.committed() == 3
    task.close()
    check(files(hadoop, f"{task.root}/orders"), 3)


def test_no_permission_is_reported(server: HadoopServer) -> None:
    folder = f"locked-{uuid.uuid4()}"
    server.make_folder(f"/{folder}", "755")
    props = settings(f"{server.url}/{folder}")
    (finding,) = HdfsSink().validate_live(HDFS_SINK.parse(props))
    assert finding.setting == "store.url"
    assert "Permission denied: user=" in (finding.error or "")
    with pytest.raises(StoreRefused, match="Permission denied"):
        Task(props)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hdfs://127.0.0.1:1", "Connection refused"),
        ("hdfs://no-such-host.invalid:8020", "no-such-host"),
        ("nofs://somewhere", "No FileSystem for scheme"),
    ],
)
def test_a_wrong_url_is_reported(url: str, message: str) -> None:
    (finding,) = HdfsSink().validate_live(HDFS_SINK.parse(settings(url)))
    assert finding.setting == "store.url"
    assert message in (finding.error or "")


def test_a_good_configuration_is_told_to_be_one(server: HadoopServer, hadoop: Hadoop) -> None:
    props = settings(server.url)
    assert list(Hdfs3Sink().validate_live(HDFS_SINK.parse(props))) == []
    assert list(hadoop.names(f"/{props['topics.dir']}")) == []


def test_the_configuration_of_hadoop_is_read(
    server: HadoopServer, hadoop: Hadoop, tmp_path: Path
) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.viewfs.mounttable.lake.link./data</name>"
        f"<value>{server.url}/data</value></property></configuration>"
    )
    hadoop.make_folder("/data")
    props = settings("viewfs://lake/data", hadoop_conf_dir=str(tmp_path))
    task = Task(props)
    task.write(6)
    assert task.committed() == 6
    task.close()
    assert Task(props).next == 6
    check(files(hadoop, f"/data{task.root}/orders"), 6)


def test_a_local_folder_will_do(tmp_path: Path) -> None:
    props = settings(f"file://{tmp_path}")
    task = Task(props)
    task.write(7)
    assert task.committed() == 6
    task.close()
    assert Task(props, 7).next == 6
    found = {
        file.name: file.read_bytes()
        for file in tmp_path.rglob("*.json")
        if not file.name.startswith(".")
    }
    check(found, 6)
