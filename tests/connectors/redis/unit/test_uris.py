"""URIs of servers."""

from __future__ import annotations

import pytest

from penstock.api import ConfigInvalid
from penstock.connectors.redis.client.access import Address, Mode
from penstock.connectors.redis.client.uris import Uri, UriInvalid, parse_uri
from penstock.connectors.redis.settings import jcustenborder, lenses
from penstock.connectors.redis.settings.connection import access_of
from penstock.connectors.redis.settings.redis_sink import REDIS_SINK

ALONE, SENTINEL = Mode.STANDALONE, Mode.SENTINEL
H = Address("h", 6379)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h", Uri(ALONE, (H,))),
        ("h:1,i", Uri(ALONE, (Address("h", 1), Address("i", 6379)))),
        ("redis://h", Uri(ALONE, (H,))),
        ("redis://h:7/3", Uri(ALONE, (Address("h", 7),), database=3)),
        ("redis://secret@h", Uri(ALONE, (H,), password="secret")),
        ("redis://:s%40e@h", Uri(ALONE, (H,), password="s@e")),
        ("redis://user:p:w@h/", Uri(ALONE, (H,), username="user", password="p:w")),
        ("rediss://u:p@h", Uri(ALONE, (H,), username="u", password="p", tls=True)),
        (
            "rediss://h?verifyPeer=NONE",
            Uri(ALONE, (H,), tls=True, verifies=False, checks_name=False),
        ),
        ("rediss://h?verifyPeer=ca", Uri(ALONE, (H,), tls=True, checks_name=False)),
        (
            "redis://h?timeout=10s&database=2&clientName=c",
            Uri(ALONE, (H,), database=2, timeout_s=10.0, client_name="c"),
        ),
        ("redis://[::1]:5", Uri(ALONE, (Address("::1", 5),))),
        (
            "redis-sentinel://p@a,b:2/1#m",
            Uri(
                SENTINEL,
                (Address("a", 26379), Address("b", 2)),
                database=1,
                password="p",
                master="m",
            ),
        ),
        (
            "redis-sentinel://a?sentinelMasterId=m",
            Uri(SENTINEL, (Address("a", 26379),), master="m"),
        ),
        ("rediss-sentinel://a#m", Uri(SENTINEL, (Address("a", 26379),), master="m", tls=True)),
        (
            "redis-socket:///run/r.sock?database=4",
            Uri(ALONE, (Address("/run/r.sock", 0),), database=4),
        ),
        ("unix:///r.sock?db=1", Uri(ALONE, (Address("/r.sock", 0),), database=1)),
        (
            "unix://u@/r.sock?password=p",
            Uri(ALONE, (Address("/r.sock", 0),), username="u", password="p"),
        ),
    ],
)
def test_every_form_is_read(text: str, expected: Uri) -> None:
    assert parse_uri(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "host is missing"),
        ("http://h", "http://"),
        ("redis://", "host is missing"),
        ("redis://h:port", "'h:port'"),
        ("redis://h:0", "0 is not a valid port"),
        ("redis://h:99999", "99999"),
        ("redis://h/first", "'first'"),
        ("redis://h?timeout=soon", "'soon'"),
        ("redis://h?color=red", "'color'"),
        ("redis://h?verifyPeer=maybe", "verifyPeer"),
        ("redis-sentinel://h", "name of the primary"),
        ("redis-socket://h", "path"),
        ("redis://[::1", "'[::1'"),
    ],
)
def test_problems_are_reported(text: str, problem: str) -> None:
    with pytest.raises(UriInvalid) as reported:
        parse_uri(text)
    assert problem in str(reported.value)


def test_passwords_are_never_shown() -> None:
    for uri in ("redis://u:hunter2@h:port", "redis://u:hunter2@a,b", "ftp://u:hunter2@h"):
        with pytest.raises(ConfigInvalid) as reported:
            REDIS_SINK.parse({"redis.uri": uri})
        assert "redis.uri" in str(reported.value)
        assert "hunter2" not in str(reported.value)
    with pytest.raises(ConfigInvalid) as reported:
        jcustenborder.JCUSTENBORDER_SINK.parse({"redis.hosts": "redis://u:hunter2@h:port"})
    assert "hunter2" not in str(reported.value)
    access = access_of(REDIS_SINK.parse({"redis.uri": "redis://u:hunter2@h"}))
    assert "hunter2" not in repr(access)


def test_settings_and_uri_together() -> None:
    given = {"redis.uri": "redis://u:p@h/2?timeout=3s", "redis.password": "own"}
    access = access_of(REDIS_SINK.parse(given))
    assert access.password is not None
    assert (access.username, access.password.value) == ("u", "own")
    assert (access.database, access.timeout_s) == (2, 3.0)
    access = access_of(REDIS_SINK.parse({**given, "redis.timeout": "5", "redis.username": "v"}))
    assert (access.username, access.timeout_s) == ("v", 5.0)
    assert access_of(REDIS_SINK.parse({})).addresses == (Address("localhost", 6379),)
    cluster = access_of(REDIS_SINK.parse({"redis.uri": "a:1,b:2", "redis.cluster": "true"}))
    assert cluster.mode is Mode.CLUSTER
    several = jcustenborder.JCUSTENBORDER_SINK.parse(
        {"redis.hosts": "a, b:2", "redis.client.mode": "Cluster", "redis.password": "p"}
    )
    access = jcustenborder.access_of(several)
    assert (access.mode, access.database) == (Mode.CLUSTER, 0)
    assert jcustenborder.access_of(jcustenborder.JCUSTENBORDER_SINK.parse({})).database == 1
    kcql = {"connect.redis.kcql": "SELECT * FROM t PK id", "connect.redis.port": "7"}
    config = lenses.LENSES_SINK.parse({**kcql, "connect.redis.host": "h"})
    assert lenses.access_of(config).addresses == (Address("h", 7),)
