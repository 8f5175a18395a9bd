"""The calls of Couchbase's SDK (`couchbase`, 4.x)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import couchbase.subdocument as subdocument
from couchbase.auth import CertificateAuthenticator, PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.durability import (
    ClientDurability,
    DurabilityLevel,
    PersistToExtended,
    ReplicateTo,
    ServerDurability,
)
from couchbase.exceptions import CouchbaseException, DocumentNotFoundException
from couchbase.n1ql import QueryScanConsistency
from couchbase.options import (
    ClusterOptions,
    ClusterTimeoutOptions,
    GetMultiOptions,
    MutateInOptions,
    QueryOptions,
    RemoveMultiOptions,
    TLSVerifyMode,
    UpsertMultiOptions,
)
from couchbase.subdocument import StoreSemantics
from couchbase.transcoder import RawJSONTranscoder, Transcoder

from penstock.connectors.couchbase.client.access import Access
from penstock.connectors.couchbase.client.errors import error_of
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.store import Change, Durability, PartChange, Stored
from penstock.connectors.couchbase.client.stores import pem_files

log = logging.getLogger(__name__)


class SdkStore:
    """A `Store` over the SDK's cluster object, or a test double of it."""

    def __init__(self, cluster: Any, held: ExitStack | None = None) -> None:
        self._cluster = cluster
        self._held = held or ExitStack()
        self._collections: dict[Keyspace, Any] = {}

    @classmethod
    def connected(cls, access: Access, within_ms: int) -> SdkStore:
        """A connection to a cluster that answers within that time."""
        with ExitStack() as stack:
            options = cluster_options(access, within_ms, stack)
            try:
                cluster = Cluster.connect(access.url, options)
            except CouchbaseException as error:
                raise error_of(error, f"Cannot connect to {access.url}") from error
            return cls(cluster, stack.pop_all())

    def upsert(
        self,
        keyspace: Keyspace,
        documents: Mapping[str, bytes],
        durability: Durability,
        expiry_ms: int,
    ) -> Mapping[str, Exception]:
        options = UpsertMultiOptions(
            transcoder=RawJSONTranscoder(),
            durability=_durability(durability),
            expiry=_time(expiry_ms),
            return_exceptions=True,
        )
        outcome = self._collection(keyspace).upsert_multi(dict(documents), options)
        return {} if outcome.all_ok else dict(outcome.exceptions)

    def remove(
        self, keyspace: Keyspace, ids: Sequence[str], durability: Durability
    ) -> Mapping[str, Exception]:
        options = RemoveMultiOptions(durability=_durability(durability), return_exceptions=True)
        outcome = self._collection(keyspace).remove_multi(list(ids), options)
        if outcome.all_ok:
            return {}
        return {
            id: error
            for id, error in outcome.exceptions.items()
            if not isinstance(error, DocumentNotFoundException)
        }

    def change(
        self,
        keyspace: Keyspace,
        id: str,
        change: PartChange,
        durability: Durability,
        expiry_ms: int,
    ) -> None:
        semantics = StoreSemantics.UPSERT if change.creates_document else StoreSemantics.REPLACE
        options = MutateInOptions(
            store_semantics=semantics,
            durability=_durability(durability),
            expiry=_time(expiry_ms),
        )
        make = {
            Change.UPSERT: subdocument.upsert,
            Change.ARRAY_PREPEND: subdocument.array_prepend,
            Change.ARRAY_APPEND: subdocument.array_append,
        }[change.kind]
        spec = make(change.path, change.value, create_parents=change.creates_path)
        self._collection(keyspace).mutate_in(id, [spec], options)

    def get(self, keyspace: Keyspace, ids: Sequence[str]) -> Mapping[str, Stored | Exception]:
        options = GetMultiOptions(transcoder=_RawTranscoder(), return_exceptions=True)
        outcome = self._collection(keyspace).get_multi(list(ids), options)
        documents: dict[str, Stored | Exception] = {
            id: error
            for id, error in outcome.exceptions.items()
            if not isinstance(error, DocumentNotFoundException)
        }
        for id, result in outcome.results.items():
            documents[id] = Stored(result.value, result.cas, result.flags)
        return documents

    def query(
        self, statement: str, parameters: Mapping[str, Any], *, reads: bool, timeout_ms: int = 0
    ) -> list[dict[str, Any]]:
        options = QueryOptions(
            named_parameters=dict(parameters),
            read_only=True if reads else None,
            scan_consistency=QueryScanConsistency.REQUEST_PLUS if reads else None,
            timeout=_time(timeout_ms),
        )
        return list(self._cluster.query(statement, options).rows())

    def collections(self, bucket: str) -> list[Keyspace]:
        scopes = self._cluster.bucket(bucket).collections().get_all_scopes()
        return [
            Keyspace(bucket, scope.name, collection.name)
            for scope in scopes
            for collection in scope.collections
        ]

    def check(self, bucket: str, within_ms: int) -> None:
        timeout = timedelta(milliseconds=within_ms)
        self._cluster.wait_until_ready(timeout)
        if bucket:
            self._cluster.bucket(bucket).ping()

    def close(self) -> None:
        try:
            self._cluster.close()
        except CouchbaseException as error:
            log.debug("Failed to close a connection: %s", error)
        finally:
            self._held.close()

    def _collection(self, keyspace: Keyspace) -> Any:
        collection = self._collections.get(keyspace)
        if collection is None:
            bucket = self._cluster.bucket(keyspace.bucket)
            collection = bucket.scope(keyspace.scope).collection(keyspace.collection)
            self._collections[keyspace] = collection
        return collection


def cluster_options(access: Access, within_ms: int, stack: ExitStack) -> ClusterOptions:
    """The SDK's options; files that they need are deleted when `stack` is closed. Raises
    ConfigInvalid."""
    timeouts = {name: timedelta(milliseconds=ms) for name, ms in access.timeouts_ms.items()}
    timeouts["bootstrap_timeout"] = timedelta(milliseconds=within_ms)
    tls: dict[str, Any] = {}
    authenticator: Any = None
    if access.tls is not None:
        files = pem_files(access.tls, stack)
        tls["enable_tls"] = True
        if files.trusted:
            tls["trust_store_path"] = files.trusted
        if not access.tls.verifies_names:
            tls["tls_verify"] = TLSVerifyMode.NO_VERIFY
        if files.certificate:
            authenticator = CertificateAuthenticator(
                cert_path=files.certificate, key_path=files.key, trust_store_path=files.trusted
            )
    if authenticator is None:
        authenticator = PasswordAuthenticator(access.username, access.password.value)
    network = {} if access.network == "auto" else {"network": access.network}
    return ClusterOptions(
        authenticator, timeout_options=ClusterTimeoutOptions(**timeouts), **network, **tls
    )


class _RawTranscoder(Transcoder):  # type: ignore[misc]  # the SDK's class has no types here
    """Leaves stored contents unchanged."""

    def encode_value(self, value: bytes) -> tuple[bytes, int]:
        raise NotImplementedError("read-only")

    def decode_value(self, value: bytes, flags: int) -> bytes:
        return value


def _durability(durability: Durability) -> Any:
    if durability.is_default:
        return None
    if durability.level != "NONE":
        return ServerDurability(DurabilityLevel[durability.level])
    return ClientDurability(
        replicate_to=ReplicateTo[durability.replicate_to],
        persist_to=PersistToExtended[durability.persist_to],
    )


def _time(ms: int) -> timedelta | None:
    return timedelta(milliseconds=ms) if ms else None
