"""The spooldir connectors: sources of local folders (connectors.md §13)."""

from __future__ import annotations

from typing import Final

from penstock.api import VERSION, Plugin
from penstock.connectors.files.local_source import FolderSource
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.settings.folders import KINDS

_PACKAGE: Final = "com.github.jcustenborder.kafka.connect.spooldir"


def _plugin(name: str) -> Plugin:
    return Plugin(
        class_name=f"{_PACKAGE}.SpoolDir{name}SourceConnector",
        version=VERSION,
        config=KINDS[name].settings,
        task_class=f"{_PACKAGE}.SpoolDir{name}SourceTask",
        extra=FILES,
    )


class SpoolDirCsv(FolderSource):
    """Reads CSV files of a local folder, with a schema."""

    plugin = _plugin("Csv")
    kind = KINDS["Csv"]


class SpoolDirJson(FolderSource):
    """Reads JSON files of a local folder, with a schema."""

    plugin = _plugin("Json")
    kind = KINDS["Json"]


class SpoolDirSchemaLessJson(FolderSource):
    """Reads JSON files of a local folder: values are the text of each JSON value."""

    plugin = _plugin("SchemaLessJson")
    kind = KINDS["SchemaLessJson"]


class SpoolDirLineDelimited(FolderSource):
    """Reads the lines of files of a local folder."""

    plugin = _plugin("LineDelimited")
    kind = KINDS["LineDelimited"]


class SpoolDirBinaryFile(FolderSource):
    """Reads files of a local folder, each as one record."""

    plugin = _plugin("BinaryFile")
    kind = KINDS["BinaryFile"]


class SpoolDirAvro(FolderSource):
    """Reads Avro files of a local folder."""

    plugin = _plugin("Avro")
    kind = KINDS["Avro"]
