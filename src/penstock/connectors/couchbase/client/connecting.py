"""Connections. The SDK is imported when one is made."""

from __future__ import annotations

from penstock.connectors.couchbase.client.access import Access
from penstock.connectors.couchbase.client.store import Store


def connect(access: Access, within_ms: int | None = None) -> Store:
    """A connection; waits until the cluster answers, for `within_ms` or the configured time.
    Raises CouchbaseUnavailable, CouchbaseRefused, ConfigInvalid."""
    from penstock.connectors.couchbase.client.sdk import SdkStore

    return SdkStore.connected(access, access.bootstrap_ms if within_ms is None else within_ms)
