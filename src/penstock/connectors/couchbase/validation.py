"""Checks of a configuration against the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.api import Finding, PenstockError
from penstock.api.settings import Config, invalid
from penstock.connectors.couchbase.client.connecting import connect
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.store import Store
from penstock.connectors.couchbase.settings import sink as sinks
from penstock.connectors.couchbase.settings import source as sources
from penstock.connectors.couchbase.settings.connection import (
    BUCKET,
    PASSWORD_KEY,
    SEED_NODES,
    USERNAME,
    access_of,
)

_WAIT_MS = 5_000


def sink_findings(config: Config) -> Iterable[Finding]:
    """The findings about a sink: settings of single topics, the cluster, the bucket."""
    sinks.sink_plan(config)
    findings, store = _connected(config)
    if store is not None:
        store.close()
    return findings


def source_findings(config: Config) -> Iterable[Finding]:
    """The findings about a source: settings of single collections, the cluster, the bucket, and
    collections that do not exist."""
    plan = sources.source_plan(config)
    findings, store = _connected(config)
    if store is None:
        return findings
    try:
        existing = store.collections(plan.bucket)
    except Exception:
        return findings  # the user may not list them
    finally:
        store.close()
    offered = sorted(keyspace.qualified for keyspace in existing)
    for keyspace in plan.collections:
        if keyspace not in existing:
            text = invalid(
                sources.COLLECTIONS.name,
                keyspace.qualified,
                f"{plan.bucket} does not contain this collection",
            )
            findings.append(Finding(sources.COLLECTIONS.name, text, offered))
    if not plan.collections and not any(is_read(plan, keyspace) for keyspace in existing):
        text = invalid(
            sources.SCOPE.name, plan.scope, f"{plan.bucket} has no collections to read there"
        )
        findings.append(Finding(sources.SCOPE.name, text))
    return findings


def is_read(plan: sources.SourcePlan, keyspace: Keyspace) -> bool:
    """Whether the source reads a collection that the configuration does not name."""
    scope = keyspace.scope
    is_system = scope.startswith("%") or (scope.startswith("_") and scope != "_default")
    if plan.scope:
        return scope == plan.scope
    return not (plan.skips_system and is_system)


def _connected(config: Config) -> tuple[list[Finding], Store | None]:
    """A connection to the bucket, or findings about why it failed."""
    from couchbase.exceptions import AuthenticationException, BucketNotFoundException

    from penstock.connectors.couchbase.client.errors import shown

    store: Store | None = None
    access = access_of(config)
    try:
        store = connect(access, _WAIT_MS)
        store.check(config[BUCKET], _WAIT_MS)
    except Exception as error:
        if store is not None:
            store.close()
        cause = error.__cause__ if isinstance(error, PenstockError) else error
        if isinstance(cause, AuthenticationException):
            text = f"The cluster rejects the user, or denies it the bucket: {shown(cause)}"
            return [Finding(USERNAME.name, text), Finding(PASSWORD_KEY.name, text)], None
        if isinstance(cause, BucketNotFoundException):
            text = invalid(
                BUCKET.name, config[BUCKET], f"The bucket does not exist: {shown(cause)}"
            )
            return [Finding(BUCKET.name, text)], None
        if cause is None:
            raise
        text = f"Could not connect to {access.url}: {shown(cause)}"
        return [Finding(SEED_NODES.name, text)], None
    return [], store
