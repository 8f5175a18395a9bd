"""Which server of a cluster a key is sent to."""

from __future__ import annotations

import pytest

from penstock.connectors.redis.client.access import Access, Address, Mode
from penstock.connectors.redis.client.servers import SLOTS, Servers, slot_of

OLD, NEW = Address("h", 1), Address("h", 2)


def test_a_redirection_counts_until_the_nodes_agree_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers(Access(Mode.CLUSTER, (OLD,)))
    known = [(0, OLD)]  # a node that knows only itself
    monkeypatch.setattr(Servers, "_ranges", lambda servers: list(known))
    assert servers.node(b"k").address == OLD
    servers.moved(b"k", servers.at("h", 2, servers.node(b"k")))
    assert [servers.node(b"k").address for _ in range(3)] == [NEW] * 3
    assert servers.node(b"other").address == OLD
    known[:] = [(0, OLD), (slot_of(b"k"), NEW), (slot_of(b"k") + 1, OLD)]
    assert slot_of(b"k") + 1 < SLOTS
    servers.moved(b"k", servers.node(b"k"))
    assert servers.node(b"k").address == NEW
    known[:] = [(0, OLD)]
    servers.refresh()
    assert servers.node(b"k").address == OLD
    servers.close()
