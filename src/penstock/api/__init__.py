"""What plugin authors implement: connectors, converters, transforms and predicates, and the
`Plugin` describing them."""

from penstock.api.converter import Converter, HeaderConverter, Use
from penstock.api.plugin import Plugin
from penstock.api.sink import SinkConnector, SinkWriter
from penstock.api.source import (
    AbortTransaction,
    Offsets,
    Primitive,
    Props,
    SourceConnector,
    SourceOffset,
    SourceReader,
)
from penstock.api.transform import Predicate, Transform
from penstock.data.records import Failed

__all__ = [
    "AbortTransaction",
    "Converter",
    "Failed",
    "HeaderConverter",
    "Offsets",
    "Plugin",
    "Predicate",
    "Primitive",
    "Props",
    "SinkConnector",
    "SinkWriter",
    "SourceConnector",
    "SourceOffset",
    "SourceReader",
    "Transform",
    "Use",
]
