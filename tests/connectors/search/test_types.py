"""Generated values of every type into indices and back, as docs/elasticsearch.md says."""

from __future__ import annotations

from datetime import date
from itertools import count
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.api import Failed
from penstock.api import schema as s
from penstock.api.schema import Schema, float32, struct
from penstock.connectors.keyed.documents import dump, node_writer
from penstock.connectors.search.sink import ElasticsearchSink, OpenSearchSink
from penstock.connectors.search.source import ElasticsearchSource, OpenSearchSource
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from tests.servers.search import PRODUCTS, SearchServer, shared

NUMBERS = count()
CONNECTORS: dict[str, tuple[Any, Any]] = {
    "opensearch": (OpenSearchSink, OpenSearchSource),
    "elasticsearch": (ElasticsearchSink, ElasticsearchSource),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


FIELDS: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "i8": (s.INT8, whole(8)),
    "i16": (s.INT16, whole(16)),
    "i32": (s.INT32, whole(32)),
    "i64": (s.INT64, whole(64)),
    "f32": (s.FLOAT32, SINGLE.map(float32)),
    "f64": (s.FLOAT64, FINITE),
    "flag": (s.BOOLEAN, st.booleans()),
    "text": (s.STRING, TEXT),
    "bytes": (s.BYTES, st.binary(max_size=20)),
    "decimal": (s.decimal(2), st.decimals(-(10**12), 10**12, places=2)),
    "date": (s.DATE, st.dates(date(1970, 1, 1))),  # Elasticsearch 7 refuses those before
    "time": (s.TIME, st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "timestamp": (
        s.TIMESTAMP,
        st.integers(0, 4 * 10**12).map(s.ms_to_timestamp),
    ),
    "list": (s.array(s.INT32), st.lists(whole(32), max_size=4)),
    "map": (
        s.map_of(s.INT32, s.STRING),
        st.dictionaries(whole(32), TEXT, max_size=3),
    ),
    "nested": (struct({"x": s.INT16}), st.fixed_dictionaries({"x": whole(16)})),
}
SCHEMA = struct({name: schema.as_optional() for name, (schema, _) in FIELDS.items()})
ROWS = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in FIELDS.items()})


@pytest.fixture(scope="module", params=PRODUCTS)
def server(request: pytest.FixtureRequest) -> SearchServer:
    return shared(request.param)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rows=st.lists(ROWS, min_size=1, max_size=8))
def test_values_are_read_as_the_table_of_types_says(
    server: SearchServer, rows: list[dict[str, Any]]
) -> None:
    index = f"types-{next(NUMBERS)}"
    sink, source = CONNECTORS[server.product]
    config = sink.plugin.config.parse({"connection.url": server.url, "read.timeout.ms": "30000"})
    context = SinkContextStub()
    writer = sink().open(config, context)
    failed: Failed = {}
    keys = [f"k{number}" for number in range(len(rows))]
    writer.write(
        records_of(rows, schema=SCHEMA, keys=keys, key_schema=s.STRING, topic=index), failed
    )
    writer.flush()
    writer.close()
    assert not failed
    assert not context.reported

    def parsed(**more: str) -> Any:
        return source.plugin.config.parse({"connection.url": server.url, "indices": index, **more})

    (props,) = source().plan_tasks(parsed(), 1)
    reader = source().open(source.plugin.config.parse(props), SourceContextStub())
    read: dict[str, Any] = {}
    while (polled := reader.poll(1 << 20, 1_000)) is not None:
        read.update(zip(polled.records.keys.values, polled.records.values.values, strict=True))
    reader.close()
    node = node_writer(SCHEMA, mapped=True, compact=True)
    assert read == {key: orjson.loads(dump(node(row))) for key, row in zip(keys, rows, strict=True)}
    for key, row in zip(keys, rows, strict=True):
        for name in ("i8", "i16", "i32", "i64", "f32", "f64", "flag", "text", "list", "nested"):
            assert read[key][name] == row[name]
    server.request("DELETE", f"/{index}")
