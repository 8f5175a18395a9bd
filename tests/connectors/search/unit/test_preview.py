"""What `penstock preview` shows of the search sinks."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api import Failed, Records
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.search.sink import ElasticsearchSink, OpenSearchSink
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub

NOWHERE = "http://127.0.0.1:1"


def reported(records: Records, connector: Any = ElasticsearchSink, **settings: str) -> list[str]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    config = connector.plugin.config.parse({"connection.url": NOWHERE, **given})
    lines: list[str] = []
    writer = connector().open_preview(config, SinkContextStub(), lines.append)
    failed: Failed = {}
    writer.write(records, failed)
    writer.flush()
    writer.close()
    return lines + [f"{row} {error}" for row, error in failed.items()]


def test_actions_are_reported_with_their_documents() -> None:
    records = records_of([{"v": 1}, None, {"v": 2}], keys=["a", "b", None], topic="Orders")
    assert reported(records, schema_ignore="true", behavior_on_null_values="delete") == [
        "PUT /orders",
        '{"index":{"_index":"orders","_id":"a","version":0,"version_type":"external"}} {"v":1}',
        '{"delete":{"_index":"orders","_id":"b","version":1,"version_type":"external"}}',
        "2 Key is used as document id and can not be null.",
    ]


def test_mappings_are_reported() -> None:
    schema = struct({"id": INT64})
    records = records_of([{"id": 7}], schema=schema, keys=["a"], key_schema=STRING, topic="t")
    assert reported(records)[:2] == [
        "PUT /t",
        'PUT /t/_mapping {"properties":{"id":{"type":"long"}}}',
    ]


@pytest.mark.parametrize("batch", ["2", "1000"])
def test_all_actions_are_reported_in_order(batch: str) -> None:
    records = records_of([{"v": n} for n in range(50)], keys=list(range(50)), topic="t")
    lines = reported(
        records, OpenSearchSink, schema_ignore="true", batch_size=batch, index_write_method="upsert"
    )
    assert [line.rpartition(" ")[2] for line in lines[1:]] == [
        f'{{"doc_as_upsert":true,"doc":{{"v":{n}}}}}' for n in range(50)
    ]
