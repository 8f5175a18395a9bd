"""Log levels, of this worker or of the cluster (kafka-connect.md §1.6, KIP-495, KIP-976)."""

from __future__ import annotations

from penstock.cluster import events as e
from penstock.host.logs import LEVELS
from penstock.rest.call import Call, HttpError, Response
from penstock.rest.operations import operate


async def list_loggers(call: Call) -> Response:
    return Response(body=call.worker.loggers.all())


async def get_logger(call: Call) -> Response:
    return Response(body=call.worker.loggers.get(call.params["logger"]))


async def set_logger(call: Call) -> Response:
    level = call.config().get("level")
    if level is None:
        raise HttpError(400, "Desired 'level' parameter was not specified in request.")
    if level.upper() not in LEVELS:
        raise HttpError(404, f"invalid log level '{level}'.")
    namespace = call.params["logger"]
    if call.query.get("scope", ["worker"])[0].lower() != "cluster":
        return Response(body=call.worker.loggers.set_level(namespace, level))
    done = await operate(call, e.SetLevel(namespace, level.upper()))
    return done if isinstance(done, Response) else Response(204)
