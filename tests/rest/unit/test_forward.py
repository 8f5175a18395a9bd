"""Requests between workers: signed, and answered or refused (kafka-connect.md §1.3, §1.9)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.datastructures import Headers

from penstock.cluster import events as e
from penstock.cluster.herder.state import (
    GroupPlace,
    HerderSettings,
    HerderState,
    Membership,
    Stable,
)
from penstock.cluster.records import SessionKey
from penstock.cluster.state import ClusterState
from penstock.config import worker_keys
from penstock.config.macs import MACS
from penstock.config.worker import parse_distributed
from penstock.rest.call import Call, HttpError, Response
from penstock.rest.forward import ALGORITHM, SIGNATURE, Client, LeaderClient, Remote, sign, verify
from penstock.rest.routes import ROUTES

MINIMAL = {
    "bootstrap.servers": "kafka:9092",
    "group.id": "connect",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
}
KEY = SessionKey(b"secret", "HmacSHA256", 1)
URL = "http://leader:8083/"


@dataclass
class Recorded(Client):
    """A client that keeps requests instead of sending them."""

    sent: list[tuple[str, str, bytes, dict[str, str]]] = field(default_factory=list)

    def send(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        self.sent.append((method, url, body, dict(headers or {})))
        return SimpleNamespace(status_code=204, content=b"")


def mac(body: bytes) -> str:
    return base64.b64encode(hmac.new(b"secret", body, hashlib.sha256).digest()).decode()


def test_the_leader_is_asked_to_fence_with_the_signature_of_an_empty_body() -> None:
    client = Recorded()
    LeaderClient(client, lambda: KEY, "HmacSHA256").fence(URL, "a/b ü")
    assert client.sent == [
        (
            "PUT",
            f"{URL}connectors/a%2Fb%20%C3%BC/fence",
            b"",
            {SIGNATURE: mac(b""), ALGORITHM: "HmacSHA256"},
        )
    ]


def test_the_leader_is_handed_a_task_set_that_is_signed() -> None:
    client = Recorded()
    LeaderClient(client, lambda: KEY, "HmacSHA256").put_tasks(URL, "c", [{"k": "v"}])
    [(method, url, body, headers)] = client.sent
    assert (method, url, body) == ("POST", f"{URL}connectors/c/tasks", b'[{"k":"v"}]')
    assert headers[SIGNATURE] == mac(body)


def test_without_a_session_key_nothing_is_signed() -> None:
    client = Recorded()
    LeaderClient(client, lambda: None, "HmacSHA256").fence(URL, "c")
    assert client.sent[0][3] == {}


@dataclass
class FakeWorker:
    """A worker that answers every operation with `result`."""

    result: e.Result
    protocol: str = "sessioned"
    key: SessionKey | None = KEY
    asked: list[e.Operation] = field(default_factory=list)

    @property
    def state(self) -> HerderState:
        return HerderState(
            HerderSettings(URL, "me:8083"),
            cluster=ClusterState(session_key=self.key),
            membership=Membership(Stable(GroupPlace("m1", 1, self.protocol, "m1", URL))),
        )

    @property
    def config(self) -> Any:
        class Always(dict[Any, Any]):
            def __missing__(self, key: Any) -> list[str]:
                return ["HmacSHA256"]

        return Always()

    def submit(self, operation: e.Operation) -> Future[e.Result]:
        self.asked.append(operation)
        answer: Future[e.Result] = Future()
        answer.set_result(self.result)
        return answer


def fence(
    worker: FakeWorker,
    headers: Mapping[str, str],
    client: Client | None = None,
    **query: str,
) -> Response:
    segments = ["connectors", "c", "fence"]
    [(route, params)] = [
        (row, found)
        for row in ROUTES
        if row.method == "PUT" and (found := row.match(segments)) is not None
    ]
    call = Call(
        worker=worker,  # type: ignore[arg-type]
        client=client or Recorded(),
        method="PUT",
        path="/connectors/c/fence",
        params=params,
        query={name: [text] for name, text in query.items()},
        headers=headers,
        body=b"",
    )
    return asyncio.run(route.handler(call))  # type: ignore[arg-type]


SIGNED = sign(b"", KEY, "HmacSHA256")


def test_a_signed_wish_is_served_by_the_leader() -> None:
    worker = FakeWorker(e.Done())
    assert fence(worker, SIGNED) == Response(204)
    assert worker.asked == [e.FenceZombies("c")]


@pytest.mark.parametrize(
    ("headers", "key", "status", "text"),
    [
        ({}, KEY, 400, "Internal request missing required signature"),
        (
            {**SIGNED, SIGNATURE: mac(b"x")},
            KEY,
            403,
            "Internal request contained invalid signature.",
        ),
        (SIGNED, None, 503, "This worker is still starting up and has not been able to read"),
        ({**SIGNED, ALGORITHM: "HmacMD5"}, KEY, 400, "This worker does not support the 'HmacMD5'"),
    ],
)
def test_a_wish_that_is_not_signed_properly_is_refused(
    headers: dict[str, str], key: SessionKey | None, status: int, text: str
) -> None:
    worker = FakeWorker(e.Done(), key=key)
    with pytest.raises(Remote) as refused:
        fence(worker, headers)
    assert (refused.value.http_status, refused.value.error_code) == (status, status)
    assert str(refused.value).startswith(text)
    assert worker.asked == []


@pytest.mark.parametrize("algorithm", [algorithm.name for algorithm in MACS])
def test_a_request_is_signed_and_verified_by_every_algorithm_that_a_worker_accepts(
    algorithm: str,
) -> None:
    setting = algorithm.lower()  # names are Java's, in any case
    config = parse_distributed(
        {
            **MINIMAL,
            "inter.worker.signature.algorithm": setting,
            "inter.worker.verification.algorithms": setting,
        }
    )
    client = Recorded()
    signature = config[worker_keys.INTER_WORKER_SIGNATURE_ALGORITHM]
    LeaderClient(client, lambda: KEY, signature).put_tasks(URL, "c", [{"k": "v"}])
    [(_, _, body, headers)] = client.sent
    accepted = config[worker_keys.INTER_WORKER_VERIFICATION_ALGORITHMS]
    verify(body, headers, KEY, accepted)
    with pytest.raises(Remote, match="invalid signature"):
        verify(body + b" ", headers, KEY, accepted)


def test_where_nobody_signs_no_signature_is_asked_for() -> None:
    assert fence(FakeWorker(e.Done(), protocol="compatible"), {}) == Response(204)


def test_a_refusal_is_reported() -> None:
    refused = e.Refused(409, "a new set")
    with pytest.raises(HttpError, match="a new set") as error:
        fence(FakeWorker(refused), SIGNED)
    assert error.value.status == 409


def test_a_worker_that_does_not_lead_sends_it_on_twice_at_most() -> None:
    client = Recorded()
    fence(FakeWorker(e.Elsewhere(URL)), SIGNED, client)
    assert [(method, url) for method, url, _, _ in client.sent] == [
        ("PUT", f"{URL}connectors/c/fence")
    ]
    with pytest.raises(HttpError) as conflict:
        fence(FakeWorker(e.Elsewhere(URL)), SIGNED, client, forward="false")
    assert conflict.value.status == 409


def test_who_asks_is_told_to_the_worker_that_is_asked_next() -> None:
    client = Recorded()
    headers = Headers({**SIGNED, "Authorization": "Basic eDp5", "Cookie": "a=b"})
    fence(FakeWorker(e.Elsewhere(URL)), headers, client)
    assert [sent for _, _, _, sent in client.sent] == [{"Authorization": "Basic eDp5"}]
