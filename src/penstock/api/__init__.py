"""What plugin authors implement: connectors, converters, transforms, predicates and config
providers, and the `Plugin` describing them.

Plugins import only this package: declarations of settings are in `penstock.api.settings`, schemas
and helpers for values in `penstock.api.schema`.
"""

from typing import Final

from penstock import KAFKA_VERSION, VERSION
from penstock.api.connector import Connector, Props
from penstock.api.converter import Converter, HeaderConverter, Use
from penstock.api.interceptor import (
    Acknowledged,
    ConsumerInterceptor,
    Figure,
    InterceptorContext,
    ProducerInterceptor,
    StageDone,
)
from penstock.api.offsets import Offsets, Primitive, SourceOffset
from penstock.api.plugin import Extra, Finding, Plugin
from penstock.api.provider import ConfigProvider
from penstock.api.sink import Batching, SinkConnector, SinkWriter
from penstock.api.source import Polled, SourceConnector, SourceReader, Transaction
from penstock.api.task import ConnectorContext, SinkContext, SourceContext, TaskContext
from penstock.api.transform import Predicate, Transform
from penstock.backoff import Backoff, Jitter
from penstock.config.providers import Lookup, ProviderFailed
from penstock.data.columns import Cells, Fields
from penstock.data.records import Column, Failed, Header, RecordRef, Records, Run
from penstock.errors import (
    AlreadyExists,
    BadRequest,
    ConfigInvalid,
    DataError,
    NotFound,
    NotInstalled,
    PenstockError,
    StartupFailed,
    Unavailable,
    Unsupported,
    is_transient,
)
from penstock.ids import TaskId, TopicPartition

API_VERSION: Final = 1
"""Increases when existing plugins have to be changed."""

__all__ = [
    "API_VERSION",
    "KAFKA_VERSION",
    "VERSION",
    "Acknowledged",
    "AlreadyExists",
    "Backoff",
    "BadRequest",
    "Batching",
    "Cells",
    "Column",
    "ConfigInvalid",
    "ConfigProvider",
    "Connector",
    "ConnectorContext",
    "ConsumerInterceptor",
    "Converter",
    "DataError",
    "Extra",
    "Failed",
    "Fields",
    "Figure",
    "Finding",
    "Header",
    "HeaderConverter",
    "InterceptorContext",
    "Jitter",
    "Lookup",
    "NotFound",
    "NotInstalled",
    "Offsets",
    "PenstockError",
    "Plugin",
    "Polled",
    "Predicate",
    "Primitive",
    "ProducerInterceptor",
    "Props",
    "ProviderFailed",
    "RecordRef",
    "Records",
    "Run",
    "SinkConnector",
    "SinkContext",
    "SinkWriter",
    "SourceConnector",
    "SourceContext",
    "SourceOffset",
    "SourceReader",
    "StageDone",
    "StartupFailed",
    "TaskContext",
    "TaskId",
    "TopicPartition",
    "Transaction",
    "Transform",
    "Unavailable",
    "Unsupported",
    "Use",
    "is_transient",
]
