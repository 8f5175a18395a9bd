"""Authentication, TLS, HTTP/2 and proxies of the HTTP sinks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.api import PenstockError
from tests.servers.certificates import Authority
from tests.servers.web import WebServer

from .sinks import Make, rows, tasks

NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"n{next(NUMBERS)}"


@pytest.fixture
def task() -> Iterator[Make]:
    with tasks() as make:
        yield make


@pytest.mark.parametrize("mode", ["header", "url"])
def test_oauth2_tokens_are_asked_for_and_renewed(
    server: WebServer, task: Make, name: str, mode: str
) -> None:
    sink = task(
        f"{server.url}/bearer/{name}",
        auth_type="oauth2",
        oauth2_token_url=f"{server.url}/token",
        oauth2_client_id="id",
        oauth2_client_secret="secret",
        oauth2_client_auth_mode=mode,
        penstock_http_order="none",
    )
    assert sink.write(rows(range(20))) == {}
    server.forget_tokens()
    assert sink.write(rows(range(20, 40))) == {}
    taken = server.taken(name)
    assert len(taken) == 40
    assert len({each["headers"]["authorization"] for each in taken}) == 2


def test_wrong_client_credentials_name_what_to_check(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(
        f"{server.url}/bearer/{name}",
        auth_type="oauth2",
        oauth2_token_url=f"{server.url}/token",
        oauth2_client_id="id",
        oauth2_client_secret="wrong",
    )
    with pytest.raises(PenstockError, match="client secret") as caught:
        sink.write(rows(range(1)))
    assert not caught.value.retriable


def test_other_authentication(server: WebServer, task: Make, name: str) -> None:
    known = {"auth_type": "basic", "connection_user": "me", "connection_password": "secret"}
    assert task(f"{server.url}/basic/{name}", **known).write(rows(range(1))) == {}
    for where in ("header", "query"):
        given = {
            "penstock_http_api_key_name": "x-key",
            "penstock_http_api_key_value": "k",
            "penstock_http_api_key_in": where,
        }
        assert task(f"{server.url}/key/{name}", **given).write(rows(range(1))) == {}
    assert len(server.taken(name)) == 3
    assert task(f"{server.url}/key/{name}", max_retries="0").write(rows(range(1))) != {}


def test_a_key_in_the_url_is_in_no_message(server: WebServer, task: Make, name: str) -> None:
    given = {
        "penstock_http_api_key_name": "x-key",
        "penstock_http_api_key_value": "hush",
        "penstock_http_api_key_in": "query",
        "max_retries": "0",
    }
    reported = task(f"{server.url}/key/{name}", **given).write(rows(range(1)))
    assert "401" in reported[0]
    assert "hush" not in reported[0]
    with pytest.raises(PenstockError) as caught:
        task("http://127.0.0.1:1/", **given).write(rows(range(1)))
    assert "hush" not in str(caught.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    (folder / "ca.pem").write_text(authority.pem())
    (folder / "server.pem").write_text(authority.issue("server", "127.0.0.1").pem())
    (folder / "client.pem").write_text(authority.issue("client", "client").pem())
    return authority, folder


def test_http2_and_mutual_tls(task: Make, name: str, authority: tuple[Authority, Path]) -> None:
    folder = authority[1]
    trust = {"https_ssl_truststore_location": str(folder / "ca.pem")}
    with WebServer(cert=folder / "server.pem", http2=True) as server:
        sink = task(
            f"{server.url}/take/{name}",
            penstock_http_version="2",
            penstock_http_order="none",
            **trust,
        )
        assert sink.write(rows(range(300))) == {}
        taken = server.taken(name)
        assert len(taken) == 300
        assert {each["version"] for each in taken} == {"2"}
        with pytest.raises(PenstockError, match="trust store") as caught:
            task(f"{server.url}/take/{name}", penstock_http_version="2").write(rows(range(1)))
        assert not caught.value.retriable
    with WebServer(cert=folder / "server.pem", ca=folder / "ca.pem") as server:
        url = f"{server.url}/take/{name}"
        known = {"https_ssl_keystore_location": str(folder / "client.pem"), **trust}
        assert task(url, **known).write(rows(range(1))) == {}
        with pytest.raises(PenstockError):
            task(url, max_retries="0", **trust).write(rows(range(1)))


def test_an_expired_certificate_fails_the_task_with_the_reason(
    task: Make, name: str, authority: tuple[Authority, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tests.servers.certificates as certificates

    class Past(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(UTC) - timedelta(days=30)

    issuer, folder = authority
    monkeypatch.setattr(certificates, "datetime", Past)
    (folder / "old.pem").write_text(issuer.issue("server", "127.0.0.1").pem())
    with WebServer(cert=folder / "old.pem") as server:
        given = {"https_ssl_truststore_location": str(folder / "ca.pem")}
        with pytest.raises(PenstockError, match="expired") as caught:
            task(f"{server.url}/take/{name}", **given).write(rows(range(1)))
        assert not caught.value.retriable


def test_requests_pass_a_proxy(server: WebServer, task: Make, name: str) -> None:
    # Requested by its full URL, the server answers like a proxy to itself.
    sink = task(
        f"http://elsewhere.test/take/{name}",
        http_proxy_host="127.0.0.1",
        http_proxy_port=str(server.port),
        http_proxy_user="u",
        http_proxy_password="p",
    )
    assert sink.write(rows(range(1))) == {}
    (taken,) = server.taken(name)
    assert taken["headers"]["host"] == "elsewhere.test"
    assert taken["headers"]["proxy-authorization"] == "Basic dTpw"
