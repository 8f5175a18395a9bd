"""The worker itself: version, health, metrics, description."""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.cluster import events as e
from penstock.rest import model
from penstock.rest.call import Call, Response
from penstock.runtime.metrics import CONTENT_TYPE

HEALTH_TIMEOUT_S: Final = 10.0


async def root(call: Call) -> Response:
    return Response(body=model.server_info(call.worker.kafka_cluster_id))


async def health(call: Call) -> Response:
    result = call.worker.submit(e.Ping())
    try:
        await asyncio.wait_for(asyncio.wrap_future(result), HEALTH_TIMEOUT_S)
    except TimeoutError:
        if not call.worker.started:
            text = "Worker is still starting up. It has not joined its group yet."
            return Response(503, {"status": "starting", "message": text})
        text = (
            "Worker was unable to handle this request and may be unable to handle other requests."
        )
        return Response(500, {"status": "unhealthy", "message": text})
    text = "Worker has completed startup and is ready to handle requests."
    return Response(body={"status": "healthy", "message": text})


async def metrics(call: Call) -> Response:
    """Metrics for Prometheus; Kafka Connect leaves that to an agent."""
    shown = await asyncio.to_thread(call.worker.exposition)
    return Response(body=shown, headers={"Content-Type": CONTENT_TYPE})


async def description(call: Call) -> Response:
    """The endpoints of this listener as OpenAPI; not in Kafka Connect."""
    return Response(body=call.description)
