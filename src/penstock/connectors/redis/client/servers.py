"""The servers that hold the keys: a single one, the primary of sentinels, or a cluster's."""

from __future__ import annotations

from binascii import crc_hqx
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final

import redis

from penstock.connectors.redis.client.access import Access, Address, Mode
from penstock.connectors.redis.client.errors import RedisRefused, RedisUnavailable, error_of
from penstock.connectors.redis.client.link import Link, connection_class

SLOTS: Final = 16_384


def slot_of(key: bytes) -> int:
    """The slot of a key, or of its part in braces.

    >>> slot_of(b"{user1000}.following") == slot_of(b"{user1000}.followers")
    True
    """
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


class Node:
    """A server: a link for pipelines, and a client for single commands."""

    def __init__(self, access: Access, address: Address) -> None:
        self.access = access
        self.address = address
        self.link = Link(access, address)
        kind, options = connection_class(access, address)
        pool = redis.ConnectionPool(connection_class=kind, **options)
        self.client = redis.Redis(connection_pool=pool)

    def ask(self, *words: str) -> Any:
        """The raw reply to one command, on a separate connection."""
        return _ask(self.access, self.address, *words)

    def close(self) -> None:
        """Disconnects."""
        self.link.close()
        self.client.connection_pool.disconnect()
        self.client.close()


def _ask(access: Access, address: Address, *words: str, to_sentinel: bool = False) -> Any:
    kind, options = connection_class(access, address, to_sentinel=to_sentinel)
    connection = kind(**options)
    try:
        connection.connect()
        connection.send_command(*words)
        return connection.read_response()
    finally:
        connection.disconnect()


class Servers:
    """Discovers the servers on first use and after `refresh`. Used by one thread."""

    def __init__(self, access: Access, wait: Callable[[float], bool] = lambda seconds: False):
        """`wait` waits for some seconds; it returns True if the task is stopping."""
        self.access = access
        self._wait = wait
        self._starts: list[int] = []
        self._nodes: list[Node] = []
        self._known: dict[Address, Node] = {}
        self._moved: dict[int, Address] = {}  # by slot, where the nodes do not agree yet

    @property
    def is_cluster(self) -> bool:
        return self.access.mode is Mode.CLUSTER

    def node(self, key: bytes) -> Node:
        """The server that holds a key."""
        if not self._nodes:
            self._discover()
        if len(self._nodes) == 1 and not self._moved:
            return self._nodes[0]
        slot = slot_of(key)
        if slot in self._moved:
            return self._known_node(self._moved[slot])
        return self._nodes[bisect_right(self._starts, slot) - 1]

    def primaries(self) -> list[Node]:
        """The servers that hold keys."""
        if not self._nodes:
            self._discover()
        return list(dict.fromkeys(self._nodes))

    def at(self, host: str, port: int, redirected_by: Node) -> Node:
        """The server in a redirection by another one."""
        return self._known_node(Address(host or redirected_by.address.host, port))

    def moved(self, key: bytes, node: Node) -> None:
        """Follows a redirection: this server holds the slot of the key, even if the others do not
        know it yet. The next use discovers the other slots again."""
        self._moved[slot_of(key)] = node.address
        self._nodes = []

    def refresh(self) -> None:
        """Makes the next use discover the servers again."""
        self._nodes, self._moved = [], {}

    def close(self) -> None:
        """Disconnects from all servers."""
        for node in self._known.values():
            node.close()
        self._known, self._nodes = {}, []

    def _known_node(self, address: Address) -> Node:
        if address not in self._known:
            self._known[address] = Node(self.access, address)
        return self._known[address]

    def _discover(self) -> None:
        ranges = self._ranges()
        self._starts = [start for start, _ in ranges]
        self._nodes = [self._known_node(address) for _, address in ranges]
        if self.access.mode is not Mode.CLUSTER:
            return
        self._moved = {
            slot: address
            for slot, address in self._moved.items()
            if self._nodes[bisect_right(self._starts, slot) - 1].address != address
        }
        used = {address for _, address in ranges} | set(self._moved.values())
        for address in self._known.keys() - used:
            self._known.pop(address).close()

    def _ranges(self) -> list[tuple[int, Address]]:
        """The first slot and the server of each range."""
        access = self.access
        if access.mode is Mode.STANDALONE:
            return [(0, access.addresses[0])]
        seeds = dict.fromkeys((*self._known, *access.addresses))
        if access.mode is Mode.SENTINEL:
            seeds = dict.fromkeys(access.addresses)
        problems: list[str] = []
        for attempt in range(access.attempts):
            if attempt and self._wait(access.delay_s):
                break
            for address in seeds:
                try:
                    if access.mode is Mode.SENTINEL:
                        return [(0, self._primary(address))]
                    return self._slots(address)
                except (redis.RedisError, OSError, RedisUnavailable) as error:
                    failure = error_of(error, f"Cannot query {address}")
                    if isinstance(failure, RedisRefused):
                        raise failure from error
                    problems.append(str(failure))
        role = "sentinel" if access.mode is Mode.SENTINEL else "node of the cluster"
        raise RedisUnavailable(
            f"No {role} responded ({access.blame}): {'; '.join(dict.fromkeys(problems))}"
        )

    def _primary(self, sentinel: Address) -> Address:
        name = self.access.master
        words = ("SENTINEL", "get-master-addr-by-name", name)
        reply = _ask(self.access, sentinel, *words, to_sentinel=True)
        if not reply:
            raise RedisUnavailable(f"The sentinel {sentinel} does not know the primary '{name}'")
        return Address(reply[0].decode(), int(reply[1]))

    def _slots(self, address: Address) -> list[tuple[int, Address]]:
        ranges: list[tuple[int, Address]] = []
        covered = 0
        for start, stop, primary, *_ in sorted(_ask(self.access, address, "CLUSTER", "SLOTS")):
            if start > covered:
                break
            covered = stop + 1
            host = (primary[0] or b"").decode()
            ranges.append(
                (start, Address(host if host not in ("", "?") else address.host, primary[1]))
            )
        if covered < SLOTS:
            raise RedisUnavailable(
                f"The cluster covers only the first {covered} of its {SLOTS} slots, according to "
                f"{address}"
            )
        return ranges
