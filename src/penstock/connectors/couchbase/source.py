"""The Couchbase source (connectors.md §11): `read` polls collections."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.api import (
    VERSION,
    Finding,
    Offsets,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
)
from penstock.api.settings import Config
from penstock.connectors.couchbase.client.access import COUCHBASE
from penstock.connectors.couchbase.client.connecting import connect
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.settings import source as k
from penstock.connectors.couchbase.settings.connection import access_of
from penstock.connectors.couchbase.validation import is_read, source_findings

_REPLAN_MS = 60_000


class CouchbaseSource(SourceConnector):
    """Polls Couchbase for changed documents and sends them to topics."""

    plugin = Plugin(
        class_name="com.couchbase.connect.kafka.CouchbaseSourceConnector",
        version=VERSION,
        config=k.COUCHBASE_SOURCE,
        task_class="com.couchbase.connect.kafka.CouchbaseSourceTask",
        extra=COUCHBASE,
        experimental="Not tested against a Couchbase server.",
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return source_findings(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        plan = k.source_plan(config)
        collections = sorted(plan.collections or self._existing(config, plan))
        tasks = [collections[at::max_tasks] for at in range(min(max_tasks, len(collections)))]
        return [
            {
                **config.props,
                k.SCOPE.name: "",
                k.COLLECTIONS.name: ",".join(keyspace.qualified for keyspace in assigned),
            }
            for assigned in tasks
        ]

    def replan_ms(self, config: Config) -> int | None:
        return None if config[k.COLLECTIONS] else _REPLAN_MS

    def exactly_once(self, config: Config) -> bool | None:
        return k.source_plan(config).uses_saved

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        from penstock.connectors.couchbase.read.offsets import check

        for altered in offsets:
            check(altered.partition, altered.offset)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        from penstock.connectors.couchbase.read.reader import CouchbaseReader

        access = access_of(config)
        return CouchbaseReader(k.source_plan(config), lambda: connect(access), context)

    def _existing(self, config: Config, plan: k.SourcePlan) -> list[Keyspace]:
        from penstock.connectors.couchbase.client.errors import error_of

        store = connect(access_of(config))
        try:
            keyspaces = store.collections(plan.bucket)
        except Exception as error:
            raise error_of(error, f"Cannot list the collections of {plan.bucket}") from error
        finally:
            store.close()
        return [keyspace for keyspace in keyspaces if is_read(plan, keyspace)]
