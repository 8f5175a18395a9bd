"""Creates missing indices, data streams and mappings."""

from __future__ import annotations

import logging

from penstock.api.schema import Schema
from penstock.connectors.search.client.access import Client, path
from penstock.connectors.search.client.errors import Answered
from penstock.connectors.search.write.mappings import mapping_of
from penstock.connectors.search.write.plan import SinkPlan

log = logging.getLogger(__name__)

_PRIORITY = 200


class Indices:
    """The indices that a task has created or seen. The methods raise Unreachable and Answered."""

    def __init__(self, plan: SinkPlan, client: Client) -> None:
        self._plan = plan
        self._client = client
        self._existing: set[str] = set()
        self._mapped: set[str] = set()

    def make(self, resource: str) -> None:
        """Creates an index or a data stream unless it exists."""
        if resource in self._existing or self._plan.resources is not None:
            return
        if not self._client.exists(path(resource)):
            log.info("Creating index %s", resource)
            self._create(resource)
        self._existing.add(resource)

    def map(self, resource: str, schema: Schema | None) -> None:
        """Creates the mapping of a schema if there is none. Raises DataError for other schemas."""
        if resource in self._mapped:
            return
        answer = self._client.request("GET", path(resource, "_mapping"))
        known = any((index.get("mappings") or {}).get("properties") for index in answer.values())
        stream = self._plan.streams is not None
        # A data stream's mapping has the timestamp from the start.
        if stream:
            known = any(
                set(index["mappings"].get("properties", ())) - {"@timestamp"}
                for index in answer.values()
            )
        if not known:
            self._client.request("PUT", path(resource, "_mapping"), mapping_of(schema))
        self._mapped.add(resource)

    def _create(self, resource: str) -> None:
        streams = self._plan.streams
        try:
            if streams is None:
                self._client.request("PUT", path(resource))
                return
            if streams.template is not None:
                self._make_template(
                    streams.template or f"{resource}-connector-data-stream-template",
                    resource,
                    streams.timestamp_field,
                )
            self._client.request("PUT", path("_data_stream", resource))
        except Answered as error:
            # Another task may have been faster.
            if not self._client.exists(path(resource)):
                raise error

    def _make_template(self, name: str, resource: str, field: str) -> None:
        if self._client.exists(path("_index_template", name)):
            return
        stream = {} if field == "@timestamp" else {"timestamp_field": {"name": field}}
        body = {"index_patterns": [resource], "priority": _PRIORITY, "data_stream": stream}
        self._client.request("PUT", path("_index_template", name), body)
