"""The iteration order of Java's `HashMap`, in which Kafka Connect prints and serialises its
entries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def hash_map_order(keys: Iterable[str], buckets: int = 16) -> list[str]:
    """The keys in the iteration order of a Java `HashMap` that was filled in the order given.

    `buckets` is the initial size of the table. The order is by bucket, within a bucket by
    insertion. A bucket that Java would have turned into a tree (eight keys in a table of 64 or
    more) may differ.
    """
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < 2:
        return distinct
    while len(distinct) > buckets * 3 // 4:
        buckets *= 2
    return sorted(distinct, key=lambda key: _spread_hash(key) & (buckets - 1))


def hash_map_copy(keys: Iterable[str]) -> list[str]:
    """The keys in the order of `new HashMap<>(map)`; the map's own order is given."""
    distinct = list(dict.fromkeys(keys))
    return hash_map_order(distinct, copy_buckets(len(distinct)))


@lru_cache(maxsize=4096)
def map_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    """`hash_map_order`, cached."""
    return tuple(hash_map_order(keys))


@lru_cache(maxsize=4096)
def order_matters(keys: tuple[str, ...], loose: frozenset[str] | None = None) -> bool:
    """Whether the iteration order of a map depends on the order in which it was filled: `loose` are
    the keys whose order may differ, by default all."""
    turned = [key for key in reversed(keys) if loose is None or key in loose]
    others = iter(turned)
    other = [next(others) if loose is None or key in loose else key for key in keys]
    return hash_map_order(keys) != hash_map_order(other)


def copy_buckets(size: int) -> int:
    """The size of the table of `new HashMap<>(map)` for a map of that many entries."""
    buckets = 1
    while buckets < size / 0.75 + 1:
        buckets *= 2
    return buckets


def _spread_hash(text: str) -> int:
    """Java's `HashMap.hash`: `String.hashCode` over UTF-16 units with its high half folded in."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code ^ code >> 16
