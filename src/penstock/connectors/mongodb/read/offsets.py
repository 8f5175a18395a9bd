"""Offsets of the source, in the form of MongoDB's connector: the namespace, and the resume token as
JSON (connectors.md §6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.api import PenstockError, Primitive
from penstock.api.settings import Config
from penstock.connectors.mongodb.client.access import PLAIN, SRV
from penstock.connectors.mongodb.read.json import text_of
from penstock.connectors.mongodb.settings import source as k
from penstock.connectors.mongodb.text.shell import TextInvalid, parse_document

NS: Final = "ns"
ID: Final = "_id"
COPY: Final = "copy"
HEARTBEAT: Final = "HEARTBEAT"


def partition_of(config: Config) -> dict[str, Primitive]:
    """The source partition: the configured name, or hosts and namespace."""
    return {NS: config[k.PARTITION_NAME] or _default_name(config)}


def _default_name(config: Config) -> str:
    uri = config[k.CONNECTION_URI].value
    scheme = SRV if uri.startswith(SRV) else PLAIN
    authority = uri[len(scheme) :].partition("/")[0].partition("?")[0]
    hosts = authority.rpartition("@")[2]
    database, collection = config[k.DATABASE], config[k.COLLECTION]
    return f"{scheme}{hosts}/{database}{f'.{collection}' if collection else ''}"


def offset_of(token: Mapping[str, Any], *, heartbeat: bool = False) -> dict[str, Primitive]:
    """The offset after the event of a resume token."""
    offset: dict[str, Primitive] = {ID: text_of({**token})}
    if heartbeat:
        offset[HEARTBEAT] = "true"
    return offset


def token_of(offset: Mapping[str, Primitive] | None) -> dict[str, Any] | None:
    """The resume token of an offset; None if the source starts over: without an offset, or after an
    unfinished copy. Raises PenstockError."""
    if offset is None or ID not in offset or COPY in offset:
        return None
    text = offset[ID]
    try:
        return parse_document(text if isinstance(text, str) else "")
    except TextInvalid as error:
        raise PenstockError(f"The stored offset is not a resume token: {error}") from error
