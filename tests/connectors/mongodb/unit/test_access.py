"""Connecting to a server: the files for TLS and their formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.api import ConfigInvalid
from penstock.api.settings import Secret
from penstock.connectors.mongodb.client.access import Access, Store
from tests.servers.certificates import Authority

TLS = Secret("mongodb://127.0.0.1:1/?tls=true")


def test_pem_and_pkcs12_files_are_taken(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("client", "127.0.0.1")
    pem, trust, key = tmp_path / "both.pem", tmp_path / "trust.p12", tmp_path / "key.p12"
    pem.write_text(issued.chain_pem() + issued.key_pem())
    trust.write_bytes(authority.pkcs12("one"))
    key.write_bytes(issued.pkcs12("two"))
    store = Store(str(pem), Secret(""))
    Access(TLS, trust=store, key=store).client().close()
    stores = Store(str(trust), Secret("one")), Store(str(key), Secret("two"))
    Access(TLS, trust=stores[0], key=stores[1]).client().close()
    with pytest.raises(ConfigInvalid, match="keystore has no private key"):
        Access(TLS, key=stores[0]).client()
    with pytest.raises(ConfigInvalid, match="truststore"):
        Access(TLS, trust=Store(str(trust), Secret("wrong"))).client()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    jks, other = tmp_path / "a.jks", tmp_path / "b"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00")
    other.write_bytes(b"nothing of the kind")
    for path, message in (
        (jks, "keytool -importkeystore"),
        (other, "neither PEM nor PKCS #12"),
        (tmp_path / "missing", "cannot be read"),
    ):
        with pytest.raises(ConfigInvalid, match=message):
            Access(TLS, trust=Store(str(path), Secret("x"))).client()


def test_files_have_no_effect_without_tls(tmp_path: Path) -> None:
    missing = Store(str(tmp_path / "missing"), Secret(""))
    Access(Secret("mongodb://127.0.0.1:1/"), trust=missing).client().close()


def test_the_uri_is_not_shown() -> None:
    assert "secret" not in repr(Access(Secret("mongodb://u:secret@h/")))
