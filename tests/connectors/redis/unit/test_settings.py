"""Rules between the settings of the Redis sinks."""

from __future__ import annotations

import pytest

from penstock.api import ConfigInvalid
from penstock.connectors.redis.client.access import Mode
from penstock.connectors.redis.settings.lenses import LENSES_SINK, access_of
from penstock.connectors.redis.settings.redis_sink import REDIS_SINK

LENSES = {"connect.redis.port": "6379", "connect.redis.kcql": "SELECT * FROM t PK id"}
REDIS = {"redis.uri": "redis://localhost", "redis.multiexec": "true"}


def test_several_hosts_are_a_cluster() -> None:
    hosts = {**LENSES, "connect.redis.host": "redis://a:1,b:2"}
    with pytest.raises(ConfigInvalid, match=r"penstock\.cluster=true"):
        LENSES_SINK.parse(hosts)
    access = access_of(LENSES_SINK.parse({**hosts, "penstock.cluster": "true"}))
    assert access.mode is Mode.CLUSTER
    assert [address.host for address in access.addresses] == ["a", "b"]


def test_a_password_in_the_host_is_hidden() -> None:
    hosts = {**LENSES, "connect.redis.host": "redis://:secret@a:1,b:2"}
    with pytest.raises(ConfigInvalid) as refused:
        LENSES_SINK.parse(hosts)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({"redis.command": "XADD"}, False),
        ({"redis.command": "HSET"}, True),
        ({"redis.type": "HASH"}, True),
        ({"redis.command": "XADD", "redis.type": "HASH"}, True),  # the type has precedence
        ({"redis.command": "HSET", "redis.type": "LIST"}, False),
    ],
)
def test_transactions_are_for_collections(settings: dict[str, str], is_refused: bool) -> None:
    if not is_refused:
        REDIS_SINK.parse({**REDIS, **settings})
        return
    with pytest.raises(ConfigInvalid, match="multi/exec"):
        REDIS_SINK.parse({**REDIS, **settings})
