"""The offsets of connectors: list, alter, reset (kafka-connect.md §1.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import orjson

from penstock.cluster import events as e
from penstock.offsets.admin import requested
from penstock.plugins.registry import InstalledPlugin, PluginKind
from penstock.rest.call import Call, HttpError, Response
from penstock.rest.operations import operate


async def get_offsets(call: Call) -> Response:
    entry, config = connector_class(call)
    offsets = call.worker.offset_admin
    return Response(body=await asyncio.to_thread(offsets.read, call.connector, entry, config))


async def patch_offsets(call: Call) -> Response:
    call.json()
    pairs = requested(orjson.loads(call.body) if call.body else None)
    refused = await for_offsets(call)
    if refused is not None:
        return refused
    entry, config = connector_class(call)
    alter = call.worker.offset_admin.alter
    text = await asyncio.to_thread(alter, call.connector, entry, config, pairs)
    return Response(body={"message": text})


async def delete_offsets(call: Call) -> Response:
    refused = await for_offsets(call)
    if refused is not None:
        return refused
    entry, config = connector_class(call)
    reset = call.worker.offset_admin.reset
    return Response(body={"message": await asyncio.to_thread(reset, call.connector, entry, config)})


async def for_offsets(call: Call) -> Response | None:
    """Ensures that a connector's offsets may be altered here: this worker is the leader, the
    connector is stopped at the end of the config topic, and zombie tasks are fenced. Returns a
    response if the request was forwarded."""
    done = await operate(call, e.CheckStopped(call.connector))
    if isinstance(done, Response):
        return done
    if not await asyncio.to_thread(call.worker.read_config_to_end):
        raise HttpError(
            500, "Failed to read to end of config topic before modifying connector offsets"
        )
    done = await operate(call, e.CheckStopped(call.connector))
    if isinstance(done, Response):
        return done
    entry, _ = connector_class(call)
    if entry.kind is PluginKind.SOURCE and call.worker.exactly_once:
        try:
            await operate(call, e.FenceZombies(call.connector))
        except HttpError as error:
            text = (
                "Failed to perform zombie fencing for source connector prior to modifying offsets"
            )
            raise HttpError(500, text) from error
    return None


def connector_class(call: Call) -> tuple[InstalledPlugin, Mapping[str, str | None]]:
    """A connector's plugin and configuration; 404 if it does not exist."""
    config = call.worker.state.cluster.config(call.connector)
    if config is None:
        raise HttpError(404, f"Connector {call.connector} not found")
    return call.worker.registry.connector_of(config), config
