"""The FTP source on a real worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson
import pytest

from penstock.connectors.files.ftp import FtpSource
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.file_servers import INSTALL, ServerProcess, is_installed

WAIT_S: Final = 120.0
FILES: Final = 60
LINES: Final = 4_000
SLICE: Final = 512

SOAK = pytest.mark.soak
pytestmark = [
    pytest.mark.slow(180),
    pytest.mark.timeout(500),
    pytest.mark.skipif(not is_installed(), reason=f"{INSTALL} for an FTP server"),
]


@pytest.mark.parametrize("protocol", [pytest.param("ftp", marks=SOAK), "sftp"])
def test_a_worker_that_is_killed_loses_nothing_and_continues(
    make_worker: Callable[..., WorkerProcess], topics: Topics, tmp_path: Path, protocol: str
) -> None:
    name, topic = f"killed-{protocol}", topics.create(f"killed-{protocol}")
    folder = tmp_path / "served"
    folder.mkdir()
    contents = {
        f"/{number:03}.log": b"".join(b"%d of %d\n" % (line, number) for line in range(LINES))
        for number in range(FILES)
    }
    for path, content in contents.items():
        (folder / path[1:]).write_bytes(content)

    def make() -> WorkerProcess:
        worker = make_worker(
            key_converter="org.apache.kafka.connect.json.JsonConverter",
            key_converter_schemas_enable="false",
            value_converter="org.apache.kafka.connect.converters.ByteArrayConverter",
            offset_flush_interval_ms="200",
            scheduled_rebalance_max_delay_ms="1000",
        ).start()
        worker.await_rest()
        return worker

    def read() -> dict[str, dict[int, bytes]]:
        """The slices of each file, by their end offsets."""
        files: dict[str, dict[int, bytes]] = {}
        for record in topics.read(topic):
            assert isinstance(record.key, bytes)
            assert isinstance(record.value, bytes)
            key = orjson.loads(record.key)
            slices = files.setdefault(key["name"], {})
            assert slices.setdefault(key["offset"], record.value) == record.value
        return files

    with ServerProcess(protocol, folder) as server:
        worker = make()
        worker.create(
            name,
            {
                "connector.class": FtpSource.plugin.class_name,
                "tasks.max": "2",
                "connect.ftp.protocol": protocol,
                "connect.ftp.address": server.address,
                "connect.ftp.user": server.user,
                "connect.ftp.password": server.password,
                "connect.ftp.refresh": "PT0.2S",
                "connect.ftp.file.maxage": "P1D",
                "connect.ftp.monitor.tail": f"/*.log:{topic}",
                "connect.ftp.monitor.slicesize": str(SLICE),
                "connect.ftp.max.poll.records": "2",  # so that it takes some seconds
                "connect.ftp.keystyle": "struct",
            },
        )
        total = sum(-(-len(content) // SLICE) for content in contents.values())
        for share in (0.1, 0.5):
            wait_until(
                lambda: topics.count(topic) >= total * share,  # noqa: B023
                WAIT_S,
                "records",
                poll_s=0.01,
            )
            worker.kill()
            worker = make()

        def is_read() -> bool:
            files = read()
            return sum(map(len, files.values())) >= total

        wait_until(is_read, WAIT_S, "all slices", poll_s=0.5)
        for path, slices in read().items():
            assert b"".join(slices[end] for end in sorted(slices)) == contents[path]

        contents["/000.log"] += b"appended\n"
        with (folder / "000.log").open("ab") as file:
            file.write(b"appended\n")
            os.fsync(file.fileno())

        def is_tailed() -> bool:
            # It includes the previous slice, if that was not stored when the worker was killed.
            last = read()["/000.log"].get(len(contents["/000.log"]), b"")
            return contents["/000.log"].endswith(last) and last.endswith(b"appended\n")

        wait_until(is_tailed, WAIT_S, "what was appended", poll_s=0.5)
        worker.request("DELETE", f"/connectors/{name}")
        worker.stop()
