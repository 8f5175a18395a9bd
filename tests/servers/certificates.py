"""Certificates for tests, from an authority; valid from an hour ago until tomorrow.

authority = Authority()
worker = authority.issue("worker-1", "localhost", "127.0.0.1")
(folder / "worker.pem").write_text(worker.pem())
(folder / "trust.pem").write_text(authority.pem())
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True, repr=False)
class Issued:
    """A certificate with its key, and the issuer's."""

    key: Key
    certificate: x509.Certificate
    issuer: x509.Certificate

    def key_pem(self, password: str | None = None) -> str:
        """The key; encrypted if there is a password."""
        return self.key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)
        ).decode()

    def chain_pem(self) -> str:
        """The certificate, followed by its issuer's."""
        return _pem(self.certificate) + _pem(self.issuer)

    def pem(self, password: str | None = None) -> str:
        """A PEM key store with key and certificates."""
        return self.key_pem(password) + self.chain_pem()

    def pkcs12(self, password: str) -> bytes:
        """A PKCS12 key store with key and certificates."""
        return pkcs12.serialize_key_and_certificates(
            b"own", self.key, self.certificate, [self.issuer], _encryption(password)
        )


class Authority:
    """A self-signed authority."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, name: str, *hosts: str, key: Key | None = None) -> Issued:
        """A certificate for these host names and addresses, with a new key unless one is given."""
        issued: Key = key or ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_host(host) for host in hosts or (name,)])
        certificate = (
            _builder(_named(name), self._name, issued)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Issued(issued, certificate, self.certificate)

    def pem(self) -> str:
        """A PEM trust store with its certificate."""
        return _pem(self.certificate)

    def pkcs12(self, password: str) -> bytes:
        """A PKCS12 trust store with its certificate, for Java."""
        trusted = [pkcs12.PKCS12Certificate(self.certificate, b"authority")]
        return pkcs12.serialize_java_truststore(trusted, _encryption(password))


def _builder(subject: x509.Name, issuer: x509.Name, key: Key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=1))
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())
