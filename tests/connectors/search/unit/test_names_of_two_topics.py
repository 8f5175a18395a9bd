"""Topics whose names become one index."""

from __future__ import annotations

import pytest

from penstock.api import PenstockError
from penstock.api.settings import Config
from penstock.connectors.search.client.access import Client
from penstock.connectors.search.settings.elasticsearch import (
    ELASTICSEARCH_SINK,
    RESOURCES,
    client_options,
    sink_plan,
)
from penstock.connectors.search.validation.live import findings
from penstock.connectors.search.write.writer import SearchWriter
from penstock.testing.contexts import SinkContextStub


def config(**settings: str) -> Config:
    given = {"connection.url": "http://127.0.0.1:9", "name": "n", "topics": "t"}
    given |= {name.replace("__", "."): value for name, value in settings.items()}
    return ELASTICSEARCH_SINK.parse(given)


def writer(**settings: str) -> SearchWriter:
    return SearchWriter(sink_plan(config(**settings)), Client.__new__(Client), SinkContextStub())


def problems_of_topics(**settings: str) -> list[str]:
    given = config(**settings)
    found = findings(client_options(given), sink_plan(given), given.props, RESOURCES.name)
    return [each.error or "" for each in found if each.setting == "topics"]


def test_topics_that_share_an_index_are_refused_if_keys_are_ids() -> None:
    keyed = writer()
    assert keyed._resource("Orders") == keyed._resource("Orders") == "orders"
    with pytest.raises(PenstockError, match=r"'Orders' and 'orders' both go to 'orders'"):
        keyed._resource("orders")
    assert keyed._resource("_items") == "items"
    with pytest.raises(PenstockError, match=r"'_items' and 'items'"):
        keyed._resource("items")


def test_a_connector_with_such_topics_is_refused_whichever_task_reads_them() -> None:
    (problem,) = problems_of_topics(topics="Orders, items,orders")
    assert problem.startswith("The topics 'Orders' and 'orders' both go to 'orders'")
    assert problems_of_topics(topics="Orders,orders", transforms="route") == []
    assert problems_of_topics(topics="Orders,orders", key__ignore="true") == []


def test_topics_may_share_an_index_if_ids_name_the_topic() -> None:
    placed = writer(key__ignore="true")
    assert placed._resource("Orders") == placed._resource("orders") == "orders"
    mixed = writer(topic__key__ignore="Orders")
    assert mixed._resource("Orders") == mixed._resource("orders") == "orders"
