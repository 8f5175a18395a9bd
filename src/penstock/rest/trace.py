"""`GET /connectors/NAME/trace`: a task's next records, step by step (penstock's own).

Served by the worker that runs the task. It consumes and runs nothing: it shows records that the
task reads meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.cluster import events as e
from penstock.ids import TaskId
from penstock.rest.call import Call, HttpError, Response
from penstock.rest.operations import operate

MOST_RECORDS: Final = 100
LONGEST_MS: Final = 60_000


async def trace(call: Call) -> Response:
    task = TaskId(call.connector, _number(call, "task", 0, 0, 2**31 - 1))
    records = _number(call, "records", 1, 1, MOST_RECORDS)
    timeout_ms = _number(call, "timeout", 10_000, 1, LONGEST_MS)
    status = await operate(call, e.FindTask(task))
    if isinstance(status, Response):
        return status
    watched = await asyncio.to_thread(call.worker.watch, task, records, timeout_ms / 1000)
    if watched is None:
        raise HttpError(409, f"Task {task} is not running, so it reads no records")
    return Response(body={"connector": task.connector, "task": task.number, "records": watched})


def _number(call: Call, name: str, default: int, least: int, most: int) -> int:
    values = call.query.get(name)
    if not values:
        return default
    try:
        number = int(values[0])
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise HttpError(400, f"{name} must be a number from {least} to {most}, not '{values[0]}'")
    return number
