"""Internal endpoints of the leader, with signed requests (kafka-connect.md §1.9, KIP-507)."""

from __future__ import annotations

from penstock.cluster import events as e
from penstock.config import worker_keys
from penstock.rest.call import Call, HttpError, Response, texts
from penstock.rest.forward import verify
from penstock.rest.operations import operate


def check_signed(call: Call) -> None:
    """Verifies the signature, if the group protocol is sessioned. Raises Remote."""
    state = call.worker.state
    member = state.membership.member
    if member is not None and member.protocol == "sessioned":
        allowed = call.worker.config[worker_keys.INTER_WORKER_VERIFICATION_ALGORITHMS]
        verify(call.body, call.headers, state.cluster.session_key, allowed)


async def fence(call: Call) -> Response:
    """Internal: a follower requests zombie fencing (KIP-618)."""
    check_signed(call)
    done = await operate(call, e.FenceZombies(call.connector))
    return done if isinstance(done, Response) else Response(204)


async def put_tasks(call: Call) -> Response:
    """Internal: a follower submits a task set."""
    check_signed(call)
    configs = call.json()
    if not isinstance(configs, list):
        raise HttpError(500, "Cannot deserialize value of type a list from the body")
    done = await operate(call, e.PutTasks(call.connector, tuple(map(texts, configs))))
    return done if isinstance(done, Response) else Response(204)
