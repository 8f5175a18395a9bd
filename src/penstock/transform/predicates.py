"""The built-in predicates (kafka-connect.md §10.11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.api.transform import Predicate
from penstock.config.checks import all_of, non_empty, valid_regex
from penstock.config.declare import text
from penstock.config.define import REQUIRED, Config, ConfigDef
from penstock.config.regex import compile_java
from penstock.data.records import Failed, Records
from penstock.transform.settings import plugin

# fmt: off
PATTERN: Final = text("pattern", REQUIRED,
    "The Java regular expression that the whole name of the topic must match.",
    check=all_of(non_empty(), valid_regex()))

TOPIC_NAME_MATCHES: Final = ConfigDef(PATTERN)

NAME: Final = text("name", REQUIRED, "The name of the header.", check=non_empty())
# fmt: on

HAS_HEADER_KEY: Final = ConfigDef(NAME)


class TopicNameMatches(Predicate):
    """Selects records of topics whose name matches."""

    plugin = plugin("predicates.TopicNameMatches", TOPIC_NAME_MATCHES)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._regex = compile_java(config[PATTERN])
        self._known: dict[str, bool] = {}

    def test(self, records: Records, failed: Failed) -> Sequence[bool]:
        known = self._known
        for topic in set(records.topics):
            if topic not in known:
                known[topic] = topic is not None and self._regex.fullmatch(topic) is not None
        return [known[topic] for topic in records.topics]


class HasHeaderKey(Predicate):
    """Selects records that have a header with the given name."""

    plugin = plugin("predicates.HasHeaderKey", HAS_HEADER_KEY)

    def test(self, records: Records, failed: Failed) -> Sequence[bool]:
        name = self.config[NAME]
        if not records.headers:
            return [False] * len(records)
        return [any(header.name == name for header in headers) for headers in records.headers]


class RecordIsTombstone(Predicate):
    """Selects tombstones: records without a value."""

    plugin = plugin("predicates.RecordIsTombstone", ConfigDef())

    def test(self, records: Records, failed: Failed) -> Sequence[bool]:
        return [value is None for value in records.values.values]
