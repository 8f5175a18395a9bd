"""Servers of FTP, FTPS and SFTP with their folders, and readers of the source there."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from penstock.api import Offsets, SourceOffset
from penstock.connectors.files.ftp import FtpSource
from penstock.connectors.files.monitor.reader import MonitorReader
from penstock.testing.contexts import SourceContextStub
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority
from tests.servers.file_servers import FtpServer, SftpServer

WAIT_S: Final = 20.0
BEGUN: Final = int(time.time()) // 60 * 60 - 86_400
P: Final = "connect.ftp."

Row = tuple[str, Any, bytes]
"""Topic, key, value."""


def commands(line: str) -> frozenset[str]:
    return frozenset(line.split())


def windows(name: str, status: os.stat_result) -> str:
    """A line as IIS writes it."""
    when = datetime.fromtimestamp(status.st_mtime, UTC).strftime("%m-%d-%y  %I:%M%p")
    is_folder = status.st_mode & 0o040000
    return f"{when}  {'     <DIR>         ' if is_folder else f'{status.st_size:>19}'} {name}"


@dataclass
class Site:
    """A server and its folder."""

    server: Any
    folder: Path
    settings: dict[str, str]
    readers: list[MonitorReader] = field(default_factory=list)
    clock: Iterator[int] = field(default_factory=lambda: itertools.count(BEGUN, 60))

    def put(self, path: str, data: bytes) -> None:
        """Writes a file, a minute after the one before."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        self.touch(path)

    def add(self, path: str, data: bytes) -> None:
        self.put(path, (self.folder / path).read_bytes() + data)

    def touch(self, path: str) -> None:
        now = next(self.clock)
        os.utime(self.folder / path, (now, now))

    def config(self, **settings: str) -> dict[str, str]:
        ours = {f"{P}{name.replace('_', '.')}": value for name, value in settings.items()}
        return {**self.settings, **{name: text for name, text in ours.items() if text}}

    def reader(
        self, settings: dict[str, str], stored: Offsets = (), source: type[FtpSource] = FtpSource
    ) -> Task:
        config = source.plugin.config.parse(settings)
        context = SourceContextStub(stored)
        reader = source().open(config, context)
        assert isinstance(reader, MonitorReader)
        self.readers.append(reader)
        return Task(reader, context)


@dataclass
class Task:
    """A reader, and its stored offsets."""

    reader: MonitorReader
    context: SourceContextStub

    def poll(self, max_bytes: int = 1 << 20) -> list[Row]:
        polled = self.reader.poll(max_bytes, 0)
        if polled is None:
            return []
        self.context.store(polled.offsets)
        self.reader.committed(polled.offsets)
        records = polled.records
        return [
            (topic, key, value)
            for topic, key, value in zip(
                records.topics, records.keys.values, records.values.values, strict=True
            )
            if isinstance(value, bytes)
        ]

    def read(self, max_bytes: int = 1 << 20) -> list[Row]:
        """All current rows."""
        rows: list[Row] = []
        while True:
            polled = self.poll(max_bytes)
            rows += polled
            if not polled and not self.reader._has_work():
                return rows

    def wait_for(self, condition: Callable[[list[Row]], bool]) -> list[Row]:
        rows: list[Row] = []

        def is_met() -> bool:
            rows.extend(self.read())
            return condition(rows)

        wait_until(is_met, WAIT_S, "records", poll_s=0.02)
        return rows

    def stored(self) -> list[SourceOffset]:
        return list({str(each.partition): each for each in self.context._stored}.values())


PROTOCOLS: Final = ["ftp", "ftp list", "ftp windows", "ftps", "ftps implicit", "sftp"]


@contextmanager
def sites(folder: Path) -> Iterator[Callable[..., Site]]:
    """Starts servers of a protocol, and ends them and their readers."""
    logging.getLogger("pyftpdlib").setLevel(logging.CRITICAL)
    with ExitStack() as stack:

        def make(protocol: str, **options: Any) -> Site:
            served = folder / "served"
            served.mkdir(exist_ok=True)
            settings = {
                f"{P}protocol": protocol.split()[0],
                f"{P}user": FtpServer.user,
                f"{P}password": FtpServer.password,
                f"{P}refresh": "PT0S",
                f"{P}file.maxage": "P14D",
                f"{P}keystyle": "string",
                f"{P}timeout": "5000",
                "penstock.ftp.timezone": "UTC",
            }
            server: FtpServer | SftpServer
            if protocol == "sftp":
                server = SftpServer(served, **options)
                known = folder / "known_hosts"
                known.write_text(server.known_hosts)
                settings["penstock.ftp.known.hosts"] = str(known)
            else:
                if protocol.startswith("ftps"):
                    authority = Authority()
                    options["certificate"] = folder / "server.pem"
                    options["implicit"] = protocol == "ftps implicit"
                    issued = authority.issue("localhost", "localhost", "127.0.0.1")
                    options["certificate"].write_text(issued.pem())
                    (folder / "ca.pem").write_text(authority.pem())
                    settings["penstock.ftp.tls.mode"] = (protocol + " explicit").split()[1]
                    settings["penstock.ftp.tls.verify"] = "true"
                    settings["penstock.ftp.tls.ca"] = str(folder / "ca.pem")
                if protocol in ("ftp list", "ftp windows"):
                    options.setdefault("without", commands("MLSD MLST SIZE MDTM"))
                    options.setdefault("line", windows if protocol == "ftp windows" else None)
                server = FtpServer(served, **options)
            stack.enter_context(server)
            settings[f"{P}address"] = server.address
            site = Site(server, served, settings)
            stack.callback(lambda: [reader.close() for reader in site.readers])
            return site

        yield make
