"""Databases reached over TLS: what the parameters of their URLs check, and the errors if that
fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.errors import PenstockError
from tests.servers.certificates import Authority
from tests.servers.databases import DatabaseServer, MariaDbServer, PostgresServer

from .tables import Target, row, write


@dataclass(frozen=True)
class Words:
    """How one kind of URL selects the checks, and its database reports that TLS is used."""

    mode: str
    none: str
    authority: str  # the certificate's issuer is checked
    everything: str  # the host too
    trusted: str
    asked: str  # answered with a row if it is


_POSTGRESQL: Final = Words(
    "sslmode",
    "disable",
    "verify-ca",
    "verify-full",
    "sslrootcert",
    "SELECT 1 FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl",
)
_MARIADB: Final = Words(
    "sslMode",
    "disable",
    "verify-ca",
    "verify-full",
    "serverSslCert",
    "SELECT 1 FROM information_schema.session_status "
    "WHERE variable_name = 'SSL_VERSION' AND variable_value <> ''",
)
WORDS: Final = {
    "postgresql": _POSTGRESQL,
    "mariadb": _MARIADB,
    "mysql": replace(
        _MARIADB, none="DISABLED", authority="VERIFY_CA", everything="VERIFY_IDENTITY"
    ),
}


@dataclass(frozen=True)
class Secure:
    """A server with a certificate for 127.0.0.1, and files of authorities."""

    server: DatabaseServer
    scheme: str
    folder: Path

    @property
    def words(self) -> Words:
        return WORDS[self.scheme]

    def settings(
        self, mode: str, trusted: str = "authority.pem", host: str = "127.0.0.1"
    ) -> dict[str, str]:
        words = self.words
        _, _, address = self.server.url.partition("//127.0.0.1")
        url = f"jdbc:{self.scheme}://{host}{address}?{words.mode}={mode}"
        return {
            **self.server.settings(),
            "connection.url": f"{url}&{words.trusted}={self.folder / trusted}",
            # Retrying does not help, and would take longer than a test may.
            "connection.attempts": "3",
            "connection.backoff.ms": "600000",
        }

    def connect(
        self, mode: str, trusted: str = "authority.pem", host: str = "127.0.0.1"
    ) -> Connection:
        settings = {"topics": "t", **self.settings(mode, trusted, host)}
        return database_of(JDBC_SINK.parse(settings)).connect()

    def used(self, connection: Connection) -> bool:
        """Whether it uses TLS, as the server sees it."""
        return bool(connection.rows(self.words.asked))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def folder(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("authorities")
    (made / "authority.pem").write_text(authority.pem())
    (made / "other.pem").write_text(Authority("other").pem())
    (made / "empty.pem").write_text("nothing of the kind")
    return made


@pytest.fixture(scope="module")
def secure_postgresql(authority: Authority) -> Iterator[DatabaseServer]:
    with PostgresServer(authority.issue("database", "127.0.0.1")) as server:
        yield server


@pytest.fixture(scope="module")
def secure_mariadb(authority: Authority) -> Iterator[DatabaseServer]:
    with MariaDbServer(authority.issue("database", "127.0.0.1")) as server:
        yield server


@pytest.fixture(params=WORDS)
def secure(request: pytest.FixtureRequest, folder: Path) -> Secure:
    name = "secure_postgresql" if request.param == "postgresql" else "secure_mariadb"
    return Secure(request.getfixturevalue(name), request.param, folder)


def test_rows_are_written_by_tls_to_a_server_whose_certificate_was_checked(
    secure: Secure, unique: Callable[[str], str]
) -> None:
    with secure.connect(secure.words.none) as connection:
        assert not secure.used(connection)
    with secure.connect(secure.words.everything) as connection:
        assert secure.used(connection)
        table = unique("t").replace("-", "_")[:40]
        target = Target(secure.settings(secure.words.everything), table, connection)
        try:
            assert write(target.sink(auto__create="true"), target.records([row(1, "a")])) == {}
            assert target.rows() == [(1, "a", None)]
        finally:
            target.close()


def test_a_certificate_of_another_authority_is_refused_with_the_parameter_to_change(
    secure: Secure,
) -> None:
    said = f"certificate verify failed.*; {secure.words.trusted} must name a file"
    for mode in (secure.words.authority, secure.words.everything):
        with pytest.raises(DatabaseRefused, match=rf"\(connection\.url\).*{said}"):
            secure.connect(mode, "other.pem")
        settings = {"topics": "t", **secure.settings(mode, "other.pem")}
        (finding,) = JdbcSink().validate_live(JDBC_SINK.parse(settings))
        assert finding.setting == "connection.url"
        assert secure.words.trusted in (finding.error or "")


def test_a_certificate_for_another_host_is_refused_with_the_parameter_to_change(
    secure: Secure,
) -> None:
    said = rf"'?localhost.*\({secure.words.mode}=(?i:verify.ca)\)"
    with pytest.raises(DatabaseRefused, match=rf"\(connection\.url\).*{said}"):
        secure.connect(secure.words.everything, host="localhost")
    with secure.connect(secure.words.authority, host="localhost") as connection:
        assert secure.used(connection)


@pytest.mark.parametrize("file", ["absent.pem", "empty.pem"])
def test_a_file_of_authorities_that_cannot_be_used_is_named(secure: Secure, file: str) -> None:
    with pytest.raises(PenstockError, match=r"connection\.url") as refused:
        secure.connect(secure.words.everything, file)
    assert not refused.value.retriable
    assert str(secure.folder / file) in str(refused.value)


@pytest.mark.parametrize("scheme", WORDS)
def test_a_server_without_tls_is_not_talked_to_in_plain_text_instead(
    request: pytest.FixtureRequest, scheme: str, folder: Path
) -> None:
    name = "postgresql" if scheme == "postgresql" else "mariadb"
    plain = Secure(request.getfixturevalue(name), scheme, folder)
    with plain.connect(plain.words.none) as connection:
        assert not plain.used(connection)
    with pytest.raises(DatabaseRefused, match=r"not support SSL|doesn't support it"):
        plain.connect(plain.words.everything)
