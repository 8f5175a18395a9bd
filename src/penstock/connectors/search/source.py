"""The sources of Elasticsearch and OpenSearch."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Collection, Iterable
from contextlib import closing

from penstock.api import (
    VERSION,
    Finding,
    Offsets,
    PenstockError,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.search.client.access import Client, ClientOptions
from penstock.connectors.search.read.positions import check_offset
from penstock.connectors.search.read.reader import SearchReader
from penstock.connectors.search.read.shards import INDEX, SHARD, groups, shards_of
from penstock.connectors.search.settings import elasticsearch, opensearch
from penstock.connectors.search.settings import source as k
from penstock.connectors.search.settings.shared import SEARCH
from penstock.connectors.search.validation.source import source_findings

log = logging.getLogger(__name__)


class _SearchSource(SourceConnector):
    @abstractmethod
    def options(self, config: Config) -> ClientOptions:
        """The connection parameters of a configuration."""

    def required_modules(self, config: Config) -> Collection[str]:
        return ("opensearchpy",)

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return source_findings(self.options(config), k.read_plan(config), config[k.INDICES])

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        with closing(Client(self.options(config))) as client:
            shards = shards_of(client, k.read_plan(config).indices)
        if not shards:
            log.warning("There is no index to read yet; the source checks again periodically")
        return [
            {**config.props, k.SHARDS.name: ",".join(map(str, group))}
            for group in groups(shards, max_tasks)
        ]

    def replan_ms(self, config: Config) -> int:
        return config[k.INDICES_POLL]

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for altered in offsets:
            if altered.offset is None:
                continue
            if not isinstance(altered.partition.get(INDEX), str) or not isinstance(
                altered.partition.get(SHARD), int
            ):
                raise PenstockError(
                    f"Partition objects should contain the key '{INDEX}' and the number '{SHARD}'"
                )
            check_offset(altered.offset)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        client = Client(self.options(config))
        return SearchReader(k.read_plan(config), client, k.shards_of_task(config), context)


class ElasticsearchSource(_SearchSource):
    """Sends the documents of Elasticsearch indices to topics, and follows changes."""

    plugin = Plugin(
        class_name="io.penstock.search.ElasticsearchSourceConnector",
        version=VERSION,
        config=k.ELASTICSEARCH_SOURCE,
        extra=SEARCH,
    )

    def options(self, config: Config) -> ClientOptions:
        return elasticsearch.client_options(config)


class OpenSearchSource(_SearchSource):
    """Sends the documents of OpenSearch indices to topics, and follows changes."""

    plugin = Plugin(
        class_name="io.penstock.search.OpenSearchSourceConnector",
        version=VERSION,
        config=k.OPENSEARCH_SOURCE,
        extra=SEARCH,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ("opensearchpy", "boto3") if opensearch.signs(config) else ("opensearchpy",)

    def options(self, config: Config) -> ClientOptions:
        return opensearch.client_options(config)
