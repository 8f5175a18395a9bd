"""Operations of the herder: served here, or forwarded to the leader or owner
(kafka-connect.md §1.3)."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any, Final

import orjson

from penstock.cluster import events as e
from penstock.rest.call import Call, HttpError, Response
from penstock.rest.forward import next_hop
from penstock.runtime.worker import Worker

REQUEST_TIMEOUT_S: Final = 90.0

_CONFLICT: Final = (
    "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
)
_NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
    "was underway."
)


async def operate(call: Call, operation: e.Operation) -> e.Done | Response:
    """Serves the operation here, or forwards it and returns the other worker's response."""
    result: e.Result = await within(
        call.worker.submit(operation), REQUEST_TIMEOUT_S, "Request timed out"
    )
    match result:
        case e.Done():
            return result
        case e.Refused():
            raise HttpError(result.status, result.message)
        case e.Elsewhere():
            return await forward(call, result.url)


async def forward(call: Call, url: str | None) -> Response:
    """Forwards the request, at most two hops (kafka-connect.md §1.3)."""
    forwards = call.query.get("forward")
    hop = next_hop(forwards[0] if forwards else None)
    if hop is None:
        raise HttpError(409, _CONFLICT)
    if not url:
        raise HttpError(409, _NO_LEADER)
    query = {name: values[0] for name, values in call.query.items()} | {"forward": hop}
    authorization = call.headers.get("Authorization")
    passed = {} if authorization is None else {"Authorization": authorization}
    answer = await asyncio.to_thread(
        call.client.send,
        call.method,
        url.rstrip("/") + call.path,
        query=query,
        body=call.body,
        headers=passed,
    )
    body = orjson.loads(answer.content) if answer.content else None
    return Response(answer.status_code, body)


async def within(future: Future[Any], timeout_s: float, text: str) -> Any:
    """The future's result; 500 with `text` when it takes too long."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout_s)
    except TimeoutError:
        raise HttpError(500, text) from None


async def ready(call: Call) -> None:
    """Waits until the worker has read its internal topics."""
    try:
        await asyncio.wait_for(_until_ready(call.worker), REQUEST_TIMEOUT_S)
    except TimeoutError:
        raise HttpError(500, "Request timed out. The worker is still reading its topics.") from None


async def _until_ready(worker: Worker) -> None:
    while not worker.state.membership.ready:
        if worker.ended.is_set():
            raise HttpError(500, "Worker is shutting down")
        await asyncio.sleep(0.02)


def existing(body: Any, text: str) -> Response:
    """200 with the body, or 404."""
    if body is None:
        raise HttpError(404, text)
    return Response(body=body)
