"""Java's key stores."""

from __future__ import annotations

import pytest

from penstock.api.tls import JavaStore, is_pem, opened
from tests.servers.certificates import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("client")


def test_a_key_store_has_a_key_and_its_certificate_first() -> None:
    store = opened(ISSUED.pkcs12("secret"), "own.p12", "secret")
    assert store.own == ISSUED.certificate
    assert store.certificates == (ISSUED.certificate, AUTHORITY.certificate)
    assert store.key_pem().decode() == ISSUED.key_pem()
    assert store.certificates_pem().decode() == ISSUED.chain_pem()


def test_a_trust_store_has_certificates_alone() -> None:
    store = opened(AUTHORITY.pkcs12("secret"), "trusted.p12", "secret")
    assert (store.key, store.own, store.key_pem()) == (None, None, b"")
    assert store.certificates == (AUTHORITY.certificate,)


@pytest.mark.parametrize("password", ["wrong", "", None])
def test_a_store_needs_its_password(password: str | None) -> None:
    with pytest.raises(ValueError, match="password"):
        opened(ISSUED.pkcs12("secret"), "own.p12", password)


@pytest.mark.parametrize("magic", [b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"], ids=["JKS", "JCEKS"])
def test_a_store_that_only_java_reads_is_refused_with_the_command_that_converts_it(
    magic: bytes,
) -> None:
    with pytest.raises(JavaStore) as refused:
        opened(magic + b"rest", "/etc/tls/own.jks", "secret")
    assert refused.value.command == (
        "keytool -importkeystore -srckeystore /etc/tls/own.jks -destkeystore own.p12 "
        "-deststoretype PKCS12"
    )


def test_pem_is_recognized() -> None:
    assert is_pem(ISSUED.pem().encode())
    assert not is_pem(ISSUED.pkcs12("secret"))
