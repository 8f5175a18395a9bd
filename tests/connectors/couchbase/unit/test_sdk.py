"""The SDK has the names that `client.sdk` calls: checked on its classes, because no server is
available."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from couchbase import options as sdk
from couchbase.auth import PasswordAuthenticator
from couchbase.bucket import Bucket
from couchbase.cluster import Cluster
from couchbase.collection import Collection
from couchbase.durability import DurabilityLevel, PersistToExtended, ReplicateTo
from couchbase.management.collections import CollectionManager
from couchbase.result import GetResult, MultiGetResult, MultiMutationResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from penstock.api import ConfigInvalid
from penstock.api.settings import Secret
from penstock.connectors.couchbase.client import errors
from penstock.connectors.couchbase.client.access import Access, Tls
from penstock.connectors.couchbase.client.connecting import connect
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.sdk import SdkStore, cluster_options
from penstock.connectors.couchbase.client.store import Change, Durability, PartChange
from penstock.kafka.broker import free_port

from .sdk_double import FakeCluster, Server

ORDERS = Keyspace("shop", "sales", "orders")
PLACE = ("shop", "sales", "orders")


def test_a_cluster_that_does_not_answer_is_unreachable() -> None:
    access = Access((f"127.0.0.1:{free_port()}",), "u", Secret("p"))
    with pytest.raises(errors.CouchbaseUnavailable, match=r"Cannot connect to couchbase://"):
        connect(access, 1_000)


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (Cluster, ("connect", "bucket", "query", "wait_until_ready", "close")),
        (Bucket, ("scope", "collections", "ping")),
        (Collection, ("upsert_multi", "remove_multi", "get_multi", "mutate_in")),
        (CollectionManager, ("get_all_scopes",)),
        (MultiMutationResult, ("all_ok", "exceptions")),
        (MultiGetResult, ("results", "exceptions")),
        (GetResult, ("value", "cas", "flags")),
    ],
)
def test_the_sdk_has_what_is_called(owner: type, names: tuple[str, ...]) -> None:
    assert [name for name in names if not hasattr(owner, name)] == []


def options_of(access: Access) -> dict[str, Any]:
    with ExitStack() as stack:
        return dict(cluster_options(access, 5_000, stack))


def test_a_user_and_timeouts_are_passed() -> None:
    access = Access(("a", "b:11210"), "u", Secret("p"), timeouts_ms={"kv_timeout": 9_000})
    given = options_of(access)
    assert access.url == "couchbase://a,b:11210"
    assert given["authenticator"] == PasswordAuthenticator("u", "p").as_dict()
    assert given["bootstrap_timeout"] == timedelta(seconds=5)
    assert given["kv_timeout"] == timedelta(seconds=9)
    assert "network" not in given


def test_a_network_is_passed() -> None:
    access = Access(("a",), "u", Secret("p"), network="external")
    assert options_of(access)["network"] == "external"


def store_file(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    path = folder / "store.p12"
    secret = BestAvailableEncryption(b"pw")
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"x", key, certificate, None, secret))
    return path


def test_pkcs12_files_become_pem_files_that_are_deleted(tmp_path: Path) -> None:
    path = str(store_file(tmp_path))
    tls = Tls(
        trusted=path, trusted_password=Secret("pw"), client=path, client_password=Secret("pw")
    )
    access = Access(("a",), "", Secret(""), tls=tls)
    with ExitStack() as stack:
        given = dict(cluster_options(access, 5_000, stack))
        assert access.url == "couchbases://a"
        assert given["enable_tls"] is True
        trusted = Path(given["trust_store_path"])
        assert "BEGIN CERTIFICATE" in trusted.read_text()
        key = Path(given["authenticator"]["key_path"])
        assert "BEGIN PRIVATE KEY" in key.read_text()
        assert key.stat().st_mode & 0o077 == 0
    assert not trusted.exists()
    assert not key.exists()


def test_a_java_key_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed....")
    tls = Tls(trusted=str(path), trusted_setting="couchbase.trust.store.path")
    with pytest.raises(ConfigInvalid, match=r"couchbase.trust.store.path.*keytool"):
        options_of(Access(("a",), "", Secret(""), tls=tls))


def test_a_password_that_is_wrong_is_refused(tmp_path: Path) -> None:
    path = str(store_file(tmp_path))
    tls = Tls(client=path, client_setting="couchbase.client.certificate.path")
    with pytest.raises(ConfigInvalid, match="neither PEM nor PKCS12 with this password"):
        options_of(Access(("a",), "", Secret(""), tls=tls))


def test_certificates_are_not_verified_if_that_is_wanted() -> None:
    access = Access(("a",), "u", Secret("p"), tls=Tls(verifies_names=False))
    assert options_of(access)["tls_verify"] == sdk.TLSVerifyMode.NO_VERIFY


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Durability(), {}),
        (Durability(level="MAJORITY"), {"durability_level": DurabilityLevel.MAJORITY}),
        (
            Durability(persist_to="ACTIVE", replicate_to="ONE"),
            {"persist_to": PersistToExtended.ACTIVE, "replicate_to": ReplicateTo.ONE},
        ),
    ],
)
def test_durability_and_expiry_are_passed(wanted: Durability, expected: dict[str, int]) -> None:
    server = Server()
    store = SdkStore(FakeCluster(server))
    store.upsert(ORDERS, {"a": b"{}"}, wanted, 60_000)
    store.change(ORDERS, "a", PartChange(Change.UPSERT, "x", 1), wanted, 60_000)
    store.remove(ORDERS, ["a"], wanted)
    names = ("durability_level", "persist_to", "replicate_to")
    for name, request in server.calls:
        given = {each: getattr(request, each, None) for each in names}
        assert {each: value for each, value in given.items() if value is not None} == expected
        assert getattr(request, "expiry", None) == (None if name == "remove" else 60)


def test_documents_are_stored_as_they_are() -> None:
    server = Server()
    store = SdkStore(FakeCluster(server))
    store.upsert(ORDERS, {"a": b'{"n": 1}'}, Durability(), 0)
    assert server.contents(PLACE) == {"a": {"n": 1}}
    assert getattr(server.calls[0][1], "expiry", None) is None


def test_removing_what_is_not_there_is_no_error() -> None:
    server = Server()
    assert SdkStore(FakeCluster(server)).remove(ORDERS, ["a"], Durability()) == {}


def test_parts_are_changed() -> None:
    server = Server()
    server.put(PLACE, "a", {"list": [1]})
    store = SdkStore(FakeCluster(server))
    for kind, value in ((Change.ARRAY_APPEND, 2), (Change.ARRAY_PREPEND, 0)):
        store.change(ORDERS, "a", PartChange(kind, "list", value), Durability(), 0)
    store.change(ORDERS, "a", PartChange(Change.UPSERT, "x.y", {"z": 1}), Durability(), 0)
    assert server.contents(PLACE) == {"a": {"list": [0, 1, 2], "x": {"y": {"z": 1}}}}


def test_queries_that_read_see_what_was_written() -> None:
    server = Server()
    store = SdkStore(FakeCluster(server))
    store.query("SELECT 1", {"a": 1}, reads=True, timeout_ms=500)
    _, parameters, sent = server.calls[0][1]
    assert parameters == {"a": 1}
    assert sent["readonly"] is True
    assert sent["scan_consistency"] == "request_plus"
    assert sent["timeout"] == 500


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("UnAmbiguousTimeoutException", errors.CouchbaseUnavailable),
        ("AmbiguousTimeoutException", errors.CouchbaseUnavailable),
        ("TemporaryFailException", errors.CouchbaseUnavailable),
        ("PathMismatchException", errors.WriteRefused),
        ("DocumentNotFoundException", errors.WriteRefused),
        ("AuthenticationException", errors.CouchbaseRefused),
        ("CollectionNotFoundException", errors.CouchbaseRefused),
    ],
)
def test_errors_of_the_sdk_mean_something(name: str, kind: type) -> None:
    from couchbase import exceptions

    error = getattr(exceptions, name)("why")
    assert type(errors.error_of(error, "Cannot")) is kind
