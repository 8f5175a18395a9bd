"""The command run in this process, against workers that answer what a test tells them to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx


@dataclass
class FakeClock:
    """Advances only while `wait` runs."""

    ms: int = 1_000_000

    def now(self) -> int:
        return self.ms

    def wait(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


@dataclass
class FakeWorkers:
    """Workers by host: the requests they received, and their answers.

    An answer is a status and a body (bytes as they are, anything else as JSON), or an error that
    the connection fails with. Several answers are returned in turn, and the last one from then on.
    An unprepared path is answered as Kafka Connect answers an unknown path.
    """

    asked: list[tuple[str, str, object]] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)
    answers: dict[tuple[str, str], list[object]] = field(default_factory=dict)
    down: dict[str, Exception] = field(default_factory=dict)

    def on(self, method: str, path: str, *answers: object) -> None:
        self.answers[method, path] = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.host in self.down:
            raise self.down[request.url.host]
        self.requests.append(request)
        path = request.url.raw_path.decode()
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, path, body))
        prepared = self.answers.get((request.method, path))
        if prepared is None:
            return httpx.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"})
        answer = prepared.pop(0) if len(prepared) > 1 else prepared[0]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, tuple)
        status, content = answer
        if isinstance(content, bytes):
            return httpx.Response(status, content=content)
        return (
            httpx.Response(status, json=content) if content is not None else httpx.Response(status)
        )


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Penstock = Callable[..., Result]
