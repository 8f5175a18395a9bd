"""The transforms of Couchbase's connector."""

from __future__ import annotations

from penstock.api import Failed, Header
from penstock.api.schema import BOOLEAN
from penstock.api.settings import ConfigDef
from penstock.connectors.couchbase.transforms import IS_OBJECT, DeserializeJson, DropIfNullValue
from penstock.testing.conformance import records_of

CONFIG = ConfigDef().parse({})
OBJECT = Header(IS_OBJECT, True, BOOLEAN)


def test_bytes_with_json_become_values() -> None:
    failed: Failed = {}
    given = [b'{"a": 1.5}', b"[1]", None, b"{", "text", b"12"]
    records = records_of(given)
    made = DeserializeJson(CONFIG).apply(records, failed)
    assert made.values.values[:3] == [{"a": 1.5}, [1], None]
    assert made.values.values[5] == 12
    assert [list(headers) for headers in made.headers] == [[OBJECT], [], [], [], [], []]
    assert sorted(failed) == [3, 4]
    assert "expected value to be JSON" in str(failed[3])
    assert records.values.values == given


def test_headers_are_kept() -> None:
    own = Header("h", "x")
    records = records_of([b"{}", b"1"]).with_headers([[own], [own]])
    made = DeserializeJson(CONFIG).apply(records, {})
    assert [list(headers) for headers in made.headers] == [[own, OBJECT], [own]]


def test_nulls_are_dropped() -> None:
    made = DropIfNullValue(CONFIG).apply(records_of([b"1", None, b"2"]), {})
    assert made.values.values == [b"1", b"2"]
    assert list(made.origins) == [0, 2]
