"""KCQL statements."""

from __future__ import annotations

import pytest

from penstock.connectors.kcql import KcqlInvalid
from penstock.connectors.redis.write.kcql import (
    Selected,
    Statement,
    Store,
    parse_kcql,
)

SYMBOL = (("symbol",),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT price from yahoo-fx PK symbol",
         Statement("yahoo-fx", Store.CACHE, fields=(Selected(("price",), "price"),), keys=SYMBOL)),
        ("INSERT INTO FX- SELECT price AS p, a.b from yahoo-fx PK symbol WITHEXTRACT TTL = 60;",
         Statement("yahoo-fx", Store.CACHE, "FX-",
                   (Selected(("price",), "p"), Selected(("a", "b"), "b")), keys=SYMBOL, ttl_s=60)),
        ("upsert into `a b` select * from `t 1` ignore x, y pk a.b, _key.c",
         Statement("t 1", Store.CACHE, "a b", ignored=frozenset("xy"),
                   keys=(("a", "b"), ("_key", "c")))),
        ("INSERT INTO s SELECT * FROM t STOREAS SortedSet (score=ts) TTL=60",
         Statement("t", Store.SORTED_SET, "s", parameters={"score": "ts"}, ttl_s=60)),
        ("SELECT a FROM t PK symbol STOREAS SORTEDSET(score=ts)",
         Statement("t", Store.SORTED_SET, fields=(Selected(("a",), "a"),), keys=SYMBOL,
                   parameters={"score": "ts"})),
        ("SELECT * FROM t STOREAS PubSub (channel = ch)",
         Statement("t", Store.PUBSUB, parameters={"channel": "ch"})),
        ("INSERT INTO g: SELECT * FROM t PK symbol STOREAS GeoAdd (longitudeField=x,latitudeField=y)",  # noqa: E501
         Statement("t", Store.GEO, "g:", keys=SYMBOL,
                   parameters={"longitudefield": "x", "latitudefield": "y"})),
        ("INSERT INTO lenses SELECT * FROM redis STOREAS STREAM BATCH = 5 WITHFORMAT json",
         Statement("redis", Store.STREAM, "lenses")),
    ],
)  # fmt: skip
def test_statements(text: str, expected: Statement) -> None:
    assert parse_kcql(text) == (expected,)


def test_several_statements() -> None:
    found = parse_kcql("SELECT * FROM a PK id;\n SELECT * FROM b STOREAS PubSub;")
    assert [each.topic for each in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no statement"),
        ("SELECT", "Expected a field"),
        ("SELECT *", "Expected FROM"),
        ("SELECT * FROM", "Expected the topic"),
        ("SELECT * FROM t", "needs PK"),
        ("SELECT * FROM t PK", "Expected a field after PK"),
        ("SELECT * FROM t STOREAS Tree", "Tree is unknown"),
        ("SELECT * FROM t STOREAS SortedSet", "needs INSERT INTO"),
        ("SELECT * FROM t STOREAS Stream", "needs INSERT INTO"),
        ("SELECT * FROM t STOREAS GeoAdd", "needs PK"),
        ("SELECT * FROM t PK a STOREAS PubSub", "cannot have PK"),
        ("SELECT * FROM t PK a TTL=soon", "whole number"),
        ("SELECT * FROM t PK a WHERE b = 1", "'WHERE' is not supported"),
        ("INSERT t SELECT * FROM u PK a", "Expected INTO"),
        ("SELECT * FROM t PK a STOREAS SortedSet(score", "Expected ="),
        ("SELECT `a FROM t", "cannot be parsed"),
    ],
)
def test_problems_are_reported(text: str, problem: str) -> None:
    with pytest.raises(KcqlInvalid) as reported:
        parse_kcql(text)
    assert problem in str(reported.value)
