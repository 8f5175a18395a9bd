"""What plugin authors implement: connectors, converters, and the `Plugin` describing them."""

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
