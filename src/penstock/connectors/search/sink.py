"""The sinks to Elasticsearch and OpenSearch (connectors.md §15)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from penstock.api import (
    VERSION,
    Finding,
    Plugin,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import Config
from penstock.connectors.search.client.access import Client, ClientOptions
from penstock.connectors.search.settings import elasticsearch, opensearch
from penstock.connectors.search.settings.shared import SEARCH
from penstock.connectors.search.validation.live import findings
from penstock.connectors.search.write.plan import SinkPlan
from penstock.connectors.search.write.preview import PreviewClient
from penstock.connectors.search.write.writer import SearchWriter


class _SearchSink(SinkConnector):
    resource_setting: str

    @abstractmethod
    def options(self, config: Config) -> ClientOptions:
        """The connection parameters of a configuration."""

    @abstractmethod
    def sink_plan(self, config: Config) -> SinkPlan:
        """The plan of a configuration."""

    def required_modules(self, config: Config) -> Collection[str]:
        return ("opensearchpy",)

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return findings(
            self.options(config), self.sink_plan(config), config.props, self.resource_setting
        )

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return SearchWriter(self.sink_plan(config), Client(self.options(config)), context)

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter:
        # One request after the other, in the order of the records.
        plan = replace(self.sink_plan(config), in_flight=1)
        return SearchWriter(plan, PreviewClient(show), context)


class ElasticsearchSink(_SearchSink):
    """Writes records as documents to Elasticsearch indices and data streams."""

    plugin = Plugin(
        class_name="io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        version=VERSION,
        config=elasticsearch.ELASTICSEARCH_SINK,
        task_class="io.confluent.connect.elasticsearch.ElasticsearchSinkTask",
        extra=SEARCH,
    )
    resource_setting = elasticsearch.RESOURCES.name

    def options(self, config: Config) -> ClientOptions:
        return elasticsearch.client_options(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return elasticsearch.sink_plan(config)


class OpenSearchSink(_SearchSink):
    """Writes records as documents to OpenSearch indices and data streams."""

    plugin = Plugin(
        class_name="io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
        version=VERSION,
        config=opensearch.OPENSEARCH_SINK,
        task_class="io.aiven.kafka.connect.opensearch.OpenSearchSinkTask",
        extra=SEARCH,
    )
    resource_setting = opensearch.RESOURCES.name

    def required_modules(self, config: Config) -> Collection[str]:
        return ("opensearchpy", "boto3") if opensearch.signs(config) else ("opensearchpy",)

    def options(self, config: Config) -> ClientOptions:
        return opensearch.client_options(config)

    def sink_plan(self, config: Config) -> SinkPlan:
        return opensearch.sink_plan(config)


class AivenElasticsearchSink(OpenSearchSink):
    """Writes records as documents to Elasticsearch indices, under the name of Aiven's older
    connector."""

    plugin = Plugin(
        class_name="io.aiven.connect.elasticsearch.ElasticsearchSinkConnector",
        version=VERSION,
        config=opensearch.AIVEN_ELASTICSEARCH_SINK,
        task_class="io.aiven.connect.elasticsearch.ElasticsearchSinkTask",
        extra=SEARCH,
    )
