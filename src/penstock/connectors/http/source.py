"""The polling source (connectors.md §12.2)."""

from __future__ import annotations

from collections.abc import Collection

from penstock.api import (
    VERSION,
    BadRequest,
    Offsets,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.http.read.reader import HttpReader
from penstock.connectors.http.settings import castorm, shared


class CastormHttpSource(SourceConnector):
    """Reads records from a server by polling it over HTTP."""

    plugin = Plugin(
        class_name="com.github.castorm.kafka.connect.http.HttpSourceConnector",
        version=VERSION,
        config=castorm.SOURCE,
        task_class="com.github.castorm.kafka.connect.http.HttpSourceTask",
        extra=shared.HTTP,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return shared.modules(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        castorm.source_plan(config)
        castorm.client_options(config)
        return [config.props]  # all offsets belong to one source partition, {}

    def exactly_once(self, config: Config) -> bool | None:
        return None  # only the server knows whether its lists are complete and in order

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for source_offset in offsets:
            if source_offset.partition:
                raise BadRequest(
                    f"The source partition must be {{}}, not {dict(source_offset.partition)}: this "
                    "source has one offset"
                )
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return HttpReader(
            castorm.source_plan(config),
            castorm.client_options(config),
            castorm.auth(config),
            context,
        )
