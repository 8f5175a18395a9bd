"""Plugins: list, settings, validation."""

from __future__ import annotations

import asyncio

from penstock.config import connector_keys
from penstock.config.versions import LATEST
from penstock.errors import BadRequest
from penstock.rest import model
from penstock.rest.call import Call, HttpError, Response


async def list_plugins(call: Call) -> Response:
    connectors_only = call.flag("connectorsOnly", True)
    return Response(body=model.plugin_infos(call.worker.registry, connectors_only=connectors_only))


async def plugin_config(call: Call) -> Response:
    """A plugin's settings; for connectors also the common ones."""
    [version, *_] = call.query.get("version", [LATEST])
    registry, plugin = call.worker.registry, call.params["plugin"]
    return Response(body=model.plugin_config(registry, plugin, version))


async def validate_plugin(call: Call) -> Response:
    config, plugin = call.config(), call.params["plugin"]
    named = config.get(connector_keys.CONNECTOR_CLASS.name)
    if named is not None and not _trimmed(named).endswith(_trimmed(plugin)):
        raise HttpError(
            400, f"Included connector type {named} does not match request type {plugin}"
        )
    try:
        infos = await asyncio.to_thread(call.worker.planner.validate, config)
    except BadRequest as error:  # wrapped as in Kafka Connect, where another thread validates
        wrapped = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"
        raise HttpError(500, f"{wrapped}: {error}") from error
    return Response(body=infos)


def _trimmed(name: str) -> str:
    return name.removesuffix("Connector")
