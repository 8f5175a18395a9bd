"""Names of subjects (kafka-connect.md §9.5).

TopicNameStrategy         ⟨topic⟩-key, ⟨topic⟩-value
RecordNameStrategy        ⟨full name of the record⟩
TopicRecordNameStrategy   ⟨topic⟩-⟨full name of the record⟩
"""

from __future__ import annotations

from penstock.api.converter import Use
from penstock.config.define import Config
from penstock.errors import DataError
from penstock.schema_registry.settings import (
    KEY_STRATEGY,
    RECORD_NAME,
    TOPIC_NAME,
    VALUE_STRATEGY,
)


class SubjectNames:
    """Names subjects by the settings of one converter. Headers have the names of values."""

    def __init__(self, config: Config, use: Use) -> None:
        self._key = KEY_STRATEGY if use is Use.KEY else VALUE_STRATEGY
        self._strategy = config[self._key]
        self._suffix = "-key" if use is Use.KEY else "-value"
        self._what = "key" if use is Use.KEY else "value"

    @property
    def by_topic(self) -> bool:
        """Whether the subject depends on the topic alone."""
        return self._strategy == TOPIC_NAME

    def of(self, topic: str, record: str | None) -> str:
        """The subject of a schema that is written to `topic`; `record` is its full name, if any.

        Raises DataError if a record's name is required and there is none.
        """
        if self._strategy == TOPIC_NAME:
            return topic + self._suffix
        if record is None:
            raise DataError(
                f"In configuration {self._key.name} = {self._strategy}, "
                f"the message {self._what} must only be a record schema"
            )
        return record if self._strategy == RECORD_NAME else f"{topic}-{record}"
