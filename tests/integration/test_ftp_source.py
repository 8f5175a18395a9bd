"""The source of FTP, FTPS and SFTP servers, against servers of our own."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from penstock.api import Offsets, SourceOffset
from penstock.connectors.files.ftp import EnecoFtpSource, FtpSource
from penstock.connectors.files.monitor.reader import MonitorReader
from penstock.testing.certificates import Authority
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub
from penstock.testing.file_servers import (
    INSTALL,
    FtpServer,
    ServerProcess,
    SftpServer,
    is_installed,
)
from penstock.testing.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(not is_installed(), reason=f"{INSTALL} for FTP and SFTP servers"),
    pytest.mark.filterwarnings("ignore:.*asyn:DeprecationWarning"),
]

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


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    logging.getLogger("pyftpdlib").setLevel(logging.CRITICAL)
    with ExitStack() as stack:

        def make(protocol: str, **options: Any) -> Site:
            folder = tmp_path / "served"
            folder.mkdir(exist_ok=True)
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
                server = SftpServer(folder, **options)
                known = tmp_path / "known_hosts"
                known.write_text(server.known_hosts)
                settings["penstock.ftp.known.hosts"] = str(known)
            else:
                if protocol.startswith("ftps"):
                    authority = Authority()
                    options["certificate"] = tmp_path / "server.pem"
                    options["implicit"] = protocol == "ftps implicit"
                    issued = authority.issue("localhost", "localhost", "127.0.0.1")
                    options["certificate"].write_text(issued.pem())
                    (tmp_path / "ca.pem").write_text(authority.pem())
                    settings["penstock.ftp.tls.mode"] = (protocol + " explicit").split()[1]
                    settings["penstock.ftp.tls.verify"] = "true"
                    settings["penstock.ftp.tls.ca"] = str(tmp_path / "ca.pem")
                if protocol in ("ftp list", "ftp windows"):
                    options.setdefault("without", commands("MLSD MLST SIZE MDTM"))
                    options.setdefault("line", windows if protocol == "ftp windows" else None)
                server = FtpServer(folder, **options)
            stack.enter_context(server)
            settings[f"{P}address"] = server.address
            site = Site(server, folder, settings)
            stack.callback(lambda: [reader.close() for reader in site.readers])
            return site

        yield make


@pytest.fixture(params=PROTOCOLS)
def site(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    return make_site(request.param)


@pytest.fixture(params=["ftp", "sftp"])
def plain(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    return make_site(request.param)


def test_a_file_that_grows_is_tailed_and_one_that_changes_is_sent_again(site: Site) -> None:
    config = site.config(monitor_tail="/tails/:tails", monitor_update="/updates/:updates")
    site.put("tails/t", b"one\n")
    site.put("updates/u", b"first")
    task = site.reader(config)
    assert task.read() == [("tails", "/tails/t", b"one\n"), ("updates", "/updates/u", b"first")]
    assert task.read() == []
    site.add("tails/t", b"two\n")
    site.put("updates/u", b"other")
    assert task.read() == [("tails", "/tails/t", b"two\n"), ("updates", "/updates/u", b"other")]
    site.touch("tails/t")
    site.touch("updates/u")
    assert task.read() == []
    site.put("tails/t", b"anew, and longer than it was")
    site.put("updates/u", b"")
    assert [row[2] for row in task.read()] == [b"anew, and longer than it was", b""]
    again = site.reader(config, task.stored())
    assert again.read() == []
    site.put("tails/t", b"short")
    assert again.read() == [("tails", "/tails/t", b"short")]


def test_what_is_stored_is_what_the_other_connector_stores(site: Site) -> None:
    site.put("in/a.csv", b"id\n1\n")
    task = site.reader(site.config(monitor_update="/in/*.csv:a", keystyle="struct"))
    before = int(time.time() * 1000)
    assert task.read() == [("a", {"name": "/in/a.csv", "offset": 0}, b"id\n1\n")]
    (stored,) = task.stored()
    assert stored.partition == {"path": "/in/a.csv"}
    offset = dict(stored.offset or {})
    assert offset.pop("penstock.precision") in (1000, 60_000)
    times = [offset.pop(name) for name in ("firstfetched", "lastmodified", "lastinspected")]
    assert all(isinstance(each, int) and before <= each <= time.time() * 1000 for each in times)
    assert offset == {
        "size": 5,
        "timestamp": BEGUN * 1000,
        "hash": hashlib.sha256(b"id\n1\n").hexdigest(),
        "offset": -1,
    }


def theirs(path: str, content: bytes, **changes: Any) -> SourceOffset:
    """An offset of the JVM's connector, on a machine two hours ahead."""
    offset = {
        "size": len(content),
        "timestamp": (BEGUN + 7200) * 1000,
        "hash": hashlib.sha256(content).hexdigest(),
        "firstfetched": int(time.time() * 1000),
        "lastmodified": int(time.time() * 1000),
        "lastinspected": int(time.time() * 1000),
        "offset": -1,
    }
    return SourceOffset({"path": path}, {**offset, **changes})


@pytest.mark.parametrize("slices", [False, True])
@pytest.mark.parametrize("mode", ["tail", "update"])
def test_offsets_of_the_other_connector_are_taken_over(site: Site, mode: str, slices: bool) -> None:
    content = b"".join(b"%d\n" % number for number in range(100))
    site.put("same", content)
    site.put("grown", content)
    site.add("grown", b"more\n")
    changes = {"hash": "", "offset": len(content)} if slices else {}
    stored = [theirs(f"/{name}", content, **changes) for name in ("same", "grown")]
    config = site.config(monitor_slicesize="1000" if slices else "", **{f"monitor_{mode}": "/:t"})
    task = site.reader(config, stored)
    rows = task.read()
    assert b"".join(row[2] for row in rows) == (content if mode == "update" else b"") + b"more\n"
    assert {row[1] for row in rows} == {"/grown"}


def test_offsets_of_names_that_the_other_connector_misread_are_taken_over(plain: Site) -> None:
    for name in ("ü", "é"):
        plain.put(name, name.encode())
    stored = [theirs("/ü".encode().decode("latin-1"), "ü".encode())]
    task = plain.reader(plain.config(monitor_update="/:t"), stored)
    assert [row[1] for row in task.read()] == ["/é"]


def test_strange_names(site: Site) -> None:
    names = [
        "a b",
        " lead",
        "-dash",
        "100%",
        "ünï",
        "日本",
        "a;b=c",
        "#x",
        "[x]",
        "$HOME",
        "~",
        "'q'",
    ]
    if getattr(site.server, "line", None) is windows:
        names.remove(" lead")  # nothing tells where padding ends
    for name in names:
        site.put(f"s p/{name}", name.encode())
    rows = site.reader(site.config(monitor_update="/s p/:t")).read()
    assert sorted(rows) == sorted(("t", f"/s p/{name}", name.encode()) for name in names)


@pytest.mark.parametrize("protocol", ["ftp", "ftp list", "sftp"])
def test_names_that_are_not_utf_8(make_site: Callable[..., Site], protocol: str) -> None:
    site = make_site(protocol)
    folder = os.fsencode(site.folder) + b"/d\xe9p\xf4t"
    os.mkdir(folder)
    with open(folder + b"/\xfc.txt", "wb") as file:
        file.write(b"x")
    rows = site.reader(site.config(monitor_update="/d*/*:t")).read()
    assert rows == [("t", "/dépôt/ü.txt", b"x")]


def test_patterns_ages_and_filters(site: Site) -> None:
    for path in ("a/x/1.csv", "a/y/2.csv", "a/y/2.txt", "b/x/3.csv", "a/4.csv", "a/x/deep/5.csv"):
        site.put(path, path.encode())
    site.put("a/x/old.csv", b"old")
    os.utime(site.folder / "a/x/old.csv", (BEGUN - 20 * 86_400,) * 2)
    assert keys(site, monitor_update="/a/*/*.csv:t") == ["/a/x/1.csv", "/a/y/2.csv"]
    assert keys(site, monitor_update="/a/y/:t") == ["/a/y/2.csv", "/a/y/2.txt"]
    assert keys(site, monitor_update="/{a,b}/x/?.csv:t") == ["/a/x/1.csv", "/b/x/3.csv"]
    assert keys(site, monitor_update="/a/*/*:t", filter="\\d\\.t.t") == ["/a/y/2.txt"]
    assert keys(site, monitor_update="/a/4.csv:t,/missing/:t") == ["/a/4.csv"]
    assert "/a/x/old.csv" in keys(site, monitor_update="/a/x/:t", file_maxage="P30D")


def keys(site: Site, **settings: str) -> list[str]:
    return sorted(str(row[1]) for row in site.reader(site.config(**settings)).read())


def test_slices(site: Site) -> None:
    content = os.urandom(10_000)
    site.put("big", content)
    config = site.config(monitor_tail="/big:t", monitor_slicesize="1024", keystyle="struct")
    task = site.reader(config)
    first = task.poll(max_bytes=3000)
    assert [row[1]["offset"] for row in first] == [1024, 2048, 3072]
    rest = site.reader(config, task.stored()).read()
    assert b"".join(row[2] for row in first + rest) == content
    assert [row[1]["offset"] for row in rest] == [*range(4096, 10_000, 1024), 10_000]


def test_slices_of_lines(site: Site) -> None:
    lines = [b"%d\n" % number for number in range(2000)]
    lines[500] = b"long" * 1000 + b"\n"
    site.put("big", b"".join(lines) + b"unfinished")
    config = site.config(
        monitor_tail="/big:t",
        monitor_slicesize="1024",
        keystyle="struct",
        fileconverter="io.lenses.streamreactor.connect.ftp.source.MaxLinesFileConverter",
    )
    rows = site.reader(config).read()
    assert b"".join(row[2] for row in rows) == b"".join(lines) + b"unfinished"
    assert all(row[2].endswith(b"\n") and row[1]["offset"] == 0 for row in rows[:-1])
    assert rows[-1][2].endswith(b"unfinished")
    assert rows[-1][1]["offset"] == len(b"".join(lines)) + len(b"unfinished")


def test_an_updated_file_in_slices_begins_again(plain: Site) -> None:
    config = plain.config(monitor_update="/f:t", monitor_slicesize="4", keystyle="struct")
    plain.put("f", b"aaaabbbbcc")
    task = plain.reader(config)
    assert [row[1]["offset"] for row in task.read()] == [4, 8, 10]
    plain.put("f", b"ddddeeeeff")
    rows = task.read()
    assert b"".join(row[2] for row in rows) == b"ddddeeeeff"
    assert [row[1]["offset"] for row in rows] == [0, 8, 10]


@pytest.mark.parametrize("policy", ["whole", "skip"])
def test_a_tailed_file_that_shrinks(plain: Site, policy: str) -> None:
    config = {**plain.config(monitor_tail="/f:t"), "penstock.ftp.tail.shrunk": policy}
    plain.put("f", b"0123456789")
    task = plain.reader(config)
    task.read()
    plain.put("f", b"abc")
    assert [row[2] for row in task.read()] == ([b"abc"] if policy == "whole" else [])
    plain.add("f", b"def")
    assert [row[2] for row in task.read()] == [b"def"]


def test_a_server_that_ends_and_comes_again_loses_nothing(site: Site) -> None:
    expected = {f"/in/{number}": os.urandom(50_000) for number in range(20)}
    for path, content in expected.items():
        site.put(path[1:], content)
    config = site.config(monitor_update="/in/:t", monitor_slicesize="20000", max_backoff="PT0.5S")
    task = site.reader(config)
    rows = [row for _ in range(10) for row in task.poll(max_bytes=20_000)]
    site.server.stop()
    rows += task.read()  # what was in flight; it does not raise: the server may come back
    assert len(rows) < 60
    site.server.start()
    rows += task.wait_for(lambda more: len(rows) + len(more) >= 60)
    assert len(rows) == 60
    contents: dict[str, bytes] = {}
    for _, key, value in rows:
        contents[key] = contents.get(key, b"") + value
    assert contents == expected


def test_a_connection_that_is_cut_in_a_transfer_loses_nothing(site: Site) -> None:
    content = os.urandom(9 << 20)
    site.put("whole", content)
    site.server.cut_after = 5 << 20
    task = site.reader(site.config(monitor_update="/whole:t", max_backoff="PT0.5S"))
    rows = task.wait_for(bool)
    assert [row[2] for row in rows] == [content]
    assert site.server.cut_after is None, "it was cut"


def test_a_slow_server(make_site: Callable[..., Site]) -> None:
    site = make_site("ftp", bytes_per_s=100_000)
    content = os.urandom(200_000)
    site.put("slow", content)
    task = site.reader(site.config(monitor_tail="/slow:t", timeout="1000"))
    assert [row[2] for row in task.read()] == [content]


def test_a_server_without_rest(make_site: Callable[..., Site]) -> None:
    site = make_site("ftp", without=commands("REST MLSD MLST SIZE FEAT"))
    site.put("f", b"0123456789")
    config = site.config(monitor_tail="/f:t", monitor_slicesize="4")
    task = site.reader(config)
    assert [row[2] for row in task.poll(4)] == [b"0123"]
    assert [row[2] for row in site.reader(config, task.stored()).read()] == [b"4567", b"89"]


def test_a_server_that_lets_nobody_in_for_a_while(make_site: Callable[..., Site]) -> None:
    site = make_site("ftp")
    site.put("f", b"x")
    site.server.refuses = True
    task = site.reader(site.config(monitor_update="/f:t", max_backoff="PT0.5S"))
    assert task.read() == []
    site.server.refuses = False
    assert len(task.wait_for(bool)) == 1


def test_a_file_that_may_not_be_read_holds_up_no_other(plain: Site) -> None:
    for name in ("a", "b", "c"):
        plain.put(name, name.encode())
    task = plain.reader(plain.config(monitor_update="/?:t"))
    assert len(task.poll(1)) == 1
    (plain.folder / "b").unlink()  # after it was listed
    assert [row[2] for row in task.read()] == [b"c"]


def test_files_are_deleted_when_they_are_stored(plain: Site) -> None:
    config = {**plain.config(monitor_update="/in/:t", monitor_tail="/log:t")}
    config["penstock.ftp.after"] = "delete"
    for number in range(5):
        plain.put(f"in/{number}", b"%d" % number)
    plain.put("log", b"stays")
    task = plain.reader(config)
    assert len(task.read()) == 6
    assert [file.name for file in plain.folder.rglob("*") if file.is_file()] == ["log"]
    assert task.read() == []


def test_files_are_moved_when_they_are_stored_also_by_the_next_task(plain: Site) -> None:
    config = plain.config(monitor_update="/in/:t")
    for number in range(3):
        plain.put(f"in/{number}", b"%d" % number)
    task = plain.reader(config)
    assert len(task.read()) == 3  # and the worker is killed before it could move them
    config |= {"penstock.ftp.after": "move", "penstock.ftp.after.folder": "/done/of today"}
    plain.put("in/1", b"another")
    again = plain.reader(config, task.stored())
    assert [row[2] for row in again.read()] == [b"another"]
    again.read()
    moved = sorted(file.name for file in (plain.folder / "done/of today").iterdir())
    assert moved == ["0", "1", "2"]
    assert not list((plain.folder / "in").iterdir())


def test_tasks_share_the_files(plain: Site) -> None:
    for number in range(40):
        plain.put(f"in/{number}", b"%d" % number)
    config = FtpSource.plugin.config.parse(plain.config(monitor_update="/in/:t"))
    shares = [plain.reader(dict(props)).read() for props in FtpSource().plan_tasks(config, 3)]
    assert all(shares)
    assert sorted(row[1] for share in shares for row in share) == sorted(
        f"/in/{number}" for number in range(40)
    )


def test_a_private_key(make_site: Callable[..., Site], tmp_path: Path) -> None:
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519")
    site = make_site("sftp", authorized=key.export_public_key().decode())
    site.put("f", b"x")
    file = tmp_path / "key"
    file.write_bytes(key.export_private_key(passphrase="secret"))
    config = site.config(monitor_update="/f:t")
    config |= {f"{P}password": "", "penstock.ftp.private.key.passphrase": "secret"}
    for given in (str(file), file.read_text()):
        assert len(site.reader({**config, "penstock.ftp.private.key": given}).read()) == 1


def test_the_origins_settings_and_keys(make_site: Callable[..., Site]) -> None:
    site = make_site("ftp")
    site.put("f", b"x")
    config = {
        name.removeprefix("connect."): value
        for name, value in site.config(monitor_tail="/f:t", keystyle="struct").items()
    }
    config["ftp.fileconverter"] = "com.eneco.trading.kafka.connect.ftp.source.SimpleFileConverter"
    task = site.reader(config, source=EnecoFtpSource)
    polled = task.reader.poll(1000, 0)
    assert polled is not None
    schema = polled.records.keys.runs[0].schema
    assert schema is not None
    assert schema.name == "com.eneco.trading.kafka.connect.ftp.FileInfo"


def problems(site: Site, **changes: str) -> dict[str, str]:
    settings = {**site.config(monitor_tail="/in/:t"), **changes}
    config = FtpSource.plugin.config.parse(settings)
    found = FtpSource().validate_live(config)
    return {each.setting: str(each.error) for each in found}


def test_problems_are_reported_at_their_setting(site: Site) -> None:
    site.put("in/f", b"x")
    assert problems(site) == {}
    assert problems(site, **{f"{P}password": "no"}).keys() == {f"{P}password"}
    assert problems(site, **{f"{P}address": "127.0.0.1:1"}).keys() == {f"{P}address"}
    missing = problems(site, **{f"{P}monitor.update": "/missing/*.csv:t"})
    assert missing.keys() == {f"{P}monitor.update"}
    assert "/missing" in missing[f"{P}monitor.update"]
    moving = {"penstock.ftp.after": "move", "penstock.ftp.after.folder": "in"}
    assert problems(site, **moving).keys() == {"penstock.ftp.after.folder"}
    assert problems(site, **{f"{P}monitor.tail": ""}).keys() == {f"{P}monitor.tail"}


def test_a_server_that_is_not_the_one_that_is_meant(
    make_site: Callable[..., Site], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text(Authority().pem())
    assert problems(make_site("ftps"), **{"penstock.ftp.tls.ca": str(other)}).keys() == {
        "penstock.ftp.tls.verify"
    }
    other.write_text("")
    site = make_site("sftp")
    assert problems(site, **{"penstock.ftp.known.hosts": str(other)}).keys() == {
        "penstock.ftp.known.hosts"
    }
    config = site.config(monitor_tail="/:t") | {"penstock.ftp.known.hosts": ""}
    assert site.reader(config).read() == []


class _Conformance(SourceConformance):
    connector = FtpSource
    kind: str
    mode = "update"
    bad_configs = (
        ({f"{P}refresh": "1 minute"}, f"{P}refresh"),
        ({f"{P}monitor.tail": "/in"}, f"{P}monitor.tail"),
        ({f"{P}monitor.update": "/a[:t"}, f"{P}monitor.update"),
        ({f"{P}address": "host:port"}, f"{P}address"),
        ({f"{P}user": None}, f"{P}user"),
        ({f"{P}keystyle": "map"}, f"{P}keystyle"),
        ({f"{P}protocol": "http"}, f"{P}protocol"),
        ({f"{P}filter": "("}, f"{P}filter"),
        ({f"{P}fileconverter": "com.acme.Own"}, f"{P}fileconverter"),
        ({f"{P}sourcerecordconverter": "com.acme.Own"}, f"{P}sourcerecordconverter"),
        ({"penstock.ftp.after": "move"}, "penstock.ftp.after.folder"),
        ({"penstock.ftp.timezone": "Atlantis"}, "penstock.ftp.timezone"),
    )

    @pytest.fixture(autouse=True)
    def _serving(self, _folder: None) -> Iterator[None]:
        with ServerProcess(self.kind, self.folder) as self.server:
            yield

    def config(self) -> dict[str, str]:
        return {
            f"{P}protocol": self.kind,
            f"{P}address": self.server.address,
            f"{P}user": self.server.user,
            f"{P}password": self.server.password,
            f"{P}refresh": "PT0S",
            f"{P}file.maxage": "P14D",
            f"{P}monitor.{self.mode}": "/:notes",
            f"{P}keystyle": "struct",
        }

    def add(self, numbers: range) -> None:
        for number in numbers:
            draft = self.folder.parent / "draft"
            draft.write_text(f"note {number}\n")
            draft.rename(self.folder / f"{number:06}")


class TestFtp(_Conformance):
    kind = "ftp"


class TestSftp(_Conformance):
    kind = "sftp"


class TestSlices(_Conformance):
    kind = "ftp"
    mode = "tail"

    def config(self) -> dict[str, str]:
        return {**super().config(), f"{P}monitor.slicesize": "12"}

    def add(self, numbers: range) -> None:
        with (self.folder / "log").open("a") as file:
            file.writelines(f"note {number:06}\n" for number in numbers)
