"""The sinks and sources of object stores (connectors.md §13): S3, Google Cloud Storage, and Azure
Blob Storage."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

from penstock.api import Finding
from penstock.api.settings import Config
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.settings import aiven, azure, gcs, gcs_aiven, s3, s3_aiven
from penstock.connectors.files.settings.connector import ObjectConnector
from penstock.connectors.files.settings.object_source import known_by
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.sources import FileSource
from penstock.connectors.files.stores.objects_reading import ObjectReadStore
from penstock.connectors.files.stores.uploads import ObjectStore
from penstock.connectors.files.write.plan import SinkPlan


class ObjectSink(FileSink):
    """Writes records into objects of a store."""

    kind: ClassVar[ObjectConnector[Any, SinkPlan]]

    def required_modules(self, config: Config) -> Collection[str]:
        return self.kind.required_modules(config)

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return self.kind.findings(config, ObjectStore)

    def plan(self, config: Config) -> SinkPlan:
        return self.kind.plan(config)

    def store(self, config: Config, connector: str) -> ObjectStore:
        return ObjectStore(self.kind.client(config, connector))


class ObjectSource(FileSource):
    """Reads objects of a store: what the sink wrote, or any others."""

    kind: ClassVar[ObjectConnector[Any, SourcePlan]]

    def required_modules(self, config: Config) -> Collection[str]:
        return self.kind.required_modules(config)

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return self.kind.findings(config, ObjectReadStore)

    def plan(self, config: Config) -> SourcePlan:
        return self.kind.plan(config)

    def store(self, config: Config, connector: str) -> ObjectReadStore:
        return ObjectReadStore(self.kind.client(config, connector))

    def known_by(self, config: Config) -> str:
        return known_by(config)


class S3Sink(ObjectSink):
    """Writes records into objects of a bucket."""

    kind = s3.SINK
    plugin = kind.plugin


class S3Source(ObjectSource):
    """Reads objects of a bucket: what the sink wrote, or any others."""

    kind = s3.SOURCE
    plugin = kind.plugin


class AivenS3Sink(ObjectSink):
    """Writes records into objects of a bucket whenever offsets are committed."""

    kind = aiven.SINK
    plugin = kind.plugin


class AivenS3Source(ObjectSource):
    """Reads objects of a bucket whose keys match a template."""

    kind = s3_aiven.SOURCE
    plugin = kind.plugin

    def known_by(self, config: Config) -> str:
        return "objectKey"


class GcsSink(ObjectSink):
    """Writes records into objects of a bucket."""

    kind = gcs.SINK
    plugin = kind.plugin


class GcsSource(ObjectSource):
    """Reads objects of a bucket: what the sink wrote, or any others."""

    kind = gcs.SOURCE
    plugin = kind.plugin


class AivenGcsSink(ObjectSink):
    """Writes records into objects of a bucket whenever offsets are committed."""

    kind = gcs_aiven.SINK
    plugin = kind.plugin


class AzureBlobSink(ObjectSink):
    """Writes records into blobs of a container."""

    kind = azure.SINK
    plugin = kind.plugin


class AzureBlobSource(ObjectSource):
    """Reads blobs of a container: what the sink wrote, or any others."""

    kind = azure.SOURCE
    plugin = kind.plugin
