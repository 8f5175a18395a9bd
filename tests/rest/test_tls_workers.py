"""Two workers that speak only https, and require each other's certificates."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock.kafka.broker import Broker, free_port
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority

CLUSTER = "tls-pair"
WAIT_S = 120.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def client(authority: Authority, folder: Path) -> ssl.SSLContext:
    """A client with a certificate that the workers accept."""
    context = ssl.create_default_context(cadata=authority.pem())
    own = folder / "client.pem"
    own.write_text(authority.issue("client").pem())
    context.load_cert_chain(own)
    return context


def secured(authority: Authority, folder: Path, name: str) -> dict[str, str]:
    """Settings for https with a certificate for the worker: one in PEM, the others in PKCS12."""
    own = authority.issue(name, "127.0.0.1")
    trust = folder / "trust.p12"
    trust.write_bytes(authority.pkcs12("trust-pass"))
    settings = {
        "listeners": f"https://127.0.0.1:{free_port()}",
        "listeners.https.ssl.client.auth": "required",
        "listeners.https.ssl.truststore.type": "PKCS12",
        "listeners.https.ssl.truststore.location": str(trust),
        "listeners.https.ssl.truststore.password": "trust-pass",
    }
    if name == "first":
        (folder / f"{name}.pem").write_text(own.pem("key-pass"))
        return {
            **settings,
            "listeners.https.ssl.keystore.type": "PEM",
            "listeners.https.ssl.keystore.location": str(folder / f"{name}.pem"),
            "listeners.https.ssl.key.password": "key-pass",
        }
    (folder / f"{name}.p12").write_bytes(own.pkcs12("store-pass"))
    return {
        **settings,
        "listeners.https.ssl.keystore.type": "PKCS12",
        "listeners.https.ssl.keystore.location": str(folder / f"{name}.p12"),
        "listeners.https.ssl.keystore.password": "store-pass",
    }


@pytest.fixture(scope="module")
def pair(
    broker: Broker, authority: Authority, client: ssl.SSLContext, folder: Path
) -> Iterator[list[WorkerProcess]]:
    """Two workers that answer and have joined the same group."""
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(
                WorkerProcess(
                    folder,
                    {
                        **worker_settings(broker.bootstrap, CLUSTER),
                        "scheduled.rebalance.max.delay.ms": "0",
                        **secured(authority, folder, name),
                    },
                    name,
                    tls=client,
                )
            )
            for name in ("first", "second")
        ]
        for worker in workers:
            worker.await_rest(WAIT_S)
        for worker in workers:
            worker.await_rest(WAIT_S, "/health")
        yield workers


def test_requests_to_the_follower_are_done_by_the_leader(
    pair: list[WorkerProcess], tmp_path: Path
) -> None:
    """Only the leader writes: of two requests to two workers one is forwarded, and the follower
    sends the leader the task configurations of its connector."""
    names = ["asked-first", "asked-second"]
    for worker, name in zip(pair, names, strict=True):
        config = {
            "connector.class": "FileStreamSource",
            "file": str(tmp_path / name),
            "topic": f"tls-{name}",
        }
        answer = worker.create(name, config)
        assert answer.headers["location"] == f"{worker.url}/connectors/{name}"

    def owners() -> set[str]:
        found = (pair[0].status(name).get("connector", {}) for name in names)
        return {each.get("worker_id", "") for each in found}

    everyone = {worker.id for worker in pair}
    wait_until(lambda: owners() == everyone, WAIT_S, "the work to be shared out")
    for worker in pair:
        for name in names:
            wait_until(
                lambda w=worker, n=name: (
                    len(w.request("GET", f"/connectors/{n}/tasks").json()) == 1
                ),
                WAIT_S,
                f"the task of {name} to be known to {worker.id}",
            )
    for worker, name in zip(pair, reversed(names), strict=True):
        assert worker.request("DELETE", f"/connectors/{name}").status_code == 204
    for worker in pair:
        wait_until(
            lambda w=worker: w.request("GET", "/connectors").json() == [],
            WAIT_S,
            f"{worker.id} to have none",
        )
        assert "IO Error" not in worker.log_text()


def test_plain_http_gets_no_answer_and_does_no_harm(pair: list[WorkerProcess]) -> None:
    for worker in pair:
        with (
            httpx.Client(trust_env=False, timeout=10) as plain,
            pytest.raises(httpx.TransportError),
        ):
            plain.get(f"http://{worker.id}/")
        assert worker.answers()


def test_a_client_without_a_certificate_is_refused(
    pair: list[WorkerProcess], authority: Authority
) -> None:
    anonymous = ssl.create_default_context(cadata=authority.pem())
    for worker in pair:
        with (
            httpx.Client(verify=anonymous, trust_env=False, timeout=10) as client,
            pytest.raises(httpx.TransportError),
        ):
            client.get(f"{worker.url}/")
        assert worker.answers()


def test_a_key_store_that_cannot_be_used_keeps_a_worker_from_starting(
    broker: Broker, authority: Authority, folder: Path
) -> None:
    settings = {
        **worker_settings(broker.bootstrap, CLUSTER),
        **secured(authority, folder, "third"),
        "listeners.https.ssl.keystore.password": "wrong",
    }
    with WorkerProcess(folder, settings, "third") as worker:
        wait_until(lambda: worker.exit_code is not None, 60, "the worker to end")
        assert worker.exit_code == 2
        text = worker.log_text()
    assert "it cannot be opened as PKCS12 with listeners.https.ssl.keystore.password" in text
    assert "wrong" not in text
    assert "Traceback" not in text
