"""Checks of a source's configuration against the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

from penstock.api import Finding, PenstockError
from penstock.connectors.search.client.access import Client, ClientOptions
from penstock.connectors.search.read.plan import ReadPlan
from penstock.connectors.search.read.shards import demand_sortable, kind_of, shards_of
from penstock.connectors.search.settings import source as k
from penstock.connectors.search.validation.live import cluster_findings

_MAX = 20  # indices whose mappings are checked


def source_findings(
    options: ClientOptions, plan: ReadPlan, names: Sequence[str]
) -> Iterable[Finding]:
    """Findings about the cluster, the user, indices that are named, and the field they are sorted
    by."""
    with closing(Client(options)) as client:
        problems = list(cluster_findings(client, options))
        yield from problems
        if problems:
            return
        try:
            for name in names:
                if "*" not in name and not name.startswith("-") and not shards_of(client, name):
                    yield Finding(
                        k.INDICES.name,
                        f"There is no index, data stream or alias '{name}'. A pattern, such as "
                        f"'{name}*', may match future indices.",
                    )
        except PenstockError as error:
            yield Finding(k.INDICES.name, f"Failed to look for indices: {error}")
            return
        if plan.by_writes:
            return
        try:
            for index in sorted({shard.index for shard in shards_of(client, plan.indices)})[:_MAX]:
                kind = kind_of(client, index, plan.field)
                if kind is not None:
                    demand_sortable(index, plan.field, kind)
        except PenstockError as error:
            yield Finding(k.POSITION.name, str(error))
