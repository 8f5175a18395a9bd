"""What plugin authors implement: connectors, converters, transforms, predicates and config
providers, and the `Plugin` describing them."""

from penstock.api.connector import Connector, Props
from penstock.api.converter import Converter, HeaderConverter, Use
from penstock.api.plugin import Finding, Plugin
from penstock.api.provider import ConfigProvider
from penstock.api.sink import SinkConnector, SinkWriter
from penstock.api.source import (
    AbortTransaction,
    Offsets,
    Primitive,
    SourceConnector,
    SourceOffset,
    SourceReader,
)
from penstock.api.transform import Predicate, Transform
from penstock.config.providers import Lookup, ProviderFailed
from penstock.data.records import Failed

__all__ = [
    "AbortTransaction",
    "ConfigProvider",
    "Connector",
    "Converter",
    "Failed",
    "Finding",
    "HeaderConverter",
    "Lookup",
    "Offsets",
    "Plugin",
    "Predicate",
    "Primitive",
    "Props",
    "ProviderFailed",
    "SinkConnector",
    "SinkWriter",
    "SourceConnector",
    "SourceOffset",
    "SourceReader",
    "Transform",
    "Use",
]
