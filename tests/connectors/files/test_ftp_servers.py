"""The FTP source with servers that fail, are slow, lack commands, refuse the user, or are not the
one that is meant."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.connectors.files.ftp import FtpSource
from tests.servers.certificates import Authority
from tests.servers.file_servers import INSTALL, is_installed

from .ftp_sites import PROTOCOLS, P, Site, commands, sites

pytestmark = [
    pytest.mark.skipif(not is_installed(), reason=f"{INSTALL} for FTP and SFTP servers"),
    pytest.mark.filterwarnings("ignore:.*asyn:DeprecationWarning"),
]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    with sites(tmp_path) as make:
        yield make


@pytest.fixture(params=PROTOCOLS)
def site(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    return make_site(request.param)


@pytest.fixture(params=["ftp", "sftp"])
def plain(request: pytest.FixtureRequest, make_site: Callable[..., Site]) -> Site:
    return make_site(request.param)


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
