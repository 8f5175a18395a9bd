"""The packages and modules that a configuration needs."""

from __future__ import annotations

from typing import Final

from penstock.api import Extra
from penstock.api.settings import Config
from penstock.connectors.files.settings.sink import (
    FORMAT_CLASS,
    HEADERS_FORMAT,
    KEYS_FORMAT,
    STORE_HEADERS,
    STORE_KEYS,
)
from penstock.connectors.files.settings.tables import FORMAT, FORMATS, entry

FILES: Final = Extra("files", "Connectors to files", ("boto3", "fastavro", "asyncssh", "jpype"))
GCS: Final = Extra(
    "gcs", "Connectors to Google Cloud Storage", ("google.cloud.storage", "fastavro")
)
AZURE: Final = Extra(
    "azure", "Connectors to Azure Blob Storage", ("azure.storage.blob", "fastavro")
)


def modules_of(config: Config) -> list[str]:
    """The modules that the formats of a configuration need."""
    classes = [config[FORMAT_CLASS]]
    classes += [config[KEYS_FORMAT]] if config[STORE_KEYS] else []
    classes += [config[HEADERS_FORMAT]] if config[STORE_HEADERS] else []
    avro = any(entry(FORMATS, FORMAT, name) == "Avro" for name in classes)
    return ["fastavro"] if avro else []
