"""What plugin authors implement: connectors and converters, and the `Plugin` that describes them."""

from penstock.api.converter import Converter, Failed
from penstock.api.plugin import Plugin
from penstock.api.sink import SinkConnector, SinkWriter
from penstock.api.source import (
    Offsets,
    Primitive,
    Props,
    SourceConnector,
    SourceOffset,
    SourceReader,
)

__all__ = [
    "Converter",
    "Failed",
    "Offsets",
    "Plugin",
    "Primitive",
    "Props",
    "SinkConnector",
    "SinkWriter",
    "SourceConnector",
    "SourceOffset",
    "SourceReader",
]
