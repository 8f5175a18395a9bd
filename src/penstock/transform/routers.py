"""RegexRouter and TimestampRouter: change the topic (kafka-connect.md §10.10)."""

from __future__ import annotations

import re
from typing import Final

from penstock.api.transform import Transform
from penstock.config.checks import valid_regex
from penstock.config.declare import Group
from penstock.config.define import HIGH, REQUIRED, Config, ConfigDef
from penstock.config.regex import compile_java
from penstock.data.java_dates import DateFormat, PatternInvalid
from penstock.data.records import Failed, Records
from penstock.data.schema import Schema, Value
from penstock.data.text import text
from penstock.errors import DataError
from penstock.transform.java import IllegalArgument, IndexOutOfBounds, schema_text
from penstock.transform.settings import plugin

# fmt: off
_SETTINGS: Final = Group(importance=HIGH)
REGEX: Final = _SETTINGS.text("regex", REQUIRED,
    "A Java regular expression that must match the whole topic name.", check=valid_regex())
REPLACEMENT: Final = _SETTINGS.text("replacement", REQUIRED,
    "The replacement of the match; `$1` or `${name}` refers to a group, a backslash escapes the "
    "next character.")

REGEX_ROUTER: Final = ConfigDef(REGEX, REPLACEMENT)

TOPIC_FORMAT: Final = _SETTINGS.text("topic.format", "${topic}-${timestamp}",
    "The name of the new topic; `${topic}` is the old one, `${timestamp}` the record's timestamp "
    "by `timestamp.format`.")
TIMESTAMP_FORMAT: Final = _SETTINGS.text("timestamp.format", "yyyyMMdd",
    "The pattern of the timestamp for Java's SimpleDateFormat, in UTC.")
# fmt: on

TIMESTAMP_ROUTER: Final = ConfigDef(TOPIC_FORMAT, TIMESTAMP_FORMAT)

_GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9]*")


def replacement(template: str, match: re.Match[str]) -> str:
    """The result of a Java replacement (`Matcher.appendReplacement`), with its errors."""
    out: list[str] = []
    at = 0
    while at < len(template):
        char = template[at]
        if char == "\\":
            if at + 1 == len(template):
                raise IllegalArgument("character to be escaped is missing")
            out.append(template[at + 1])
            at += 2
        elif char == "$":
            group, at = _group(template, at + 1, match)
            out.append(group)
        else:
            out.append(char)
            at += 1
    return "".join(out)


def _group(template: str, at: int, match: re.Match[str]) -> tuple[str, int]:
    """The match of the group named after a `$`, and where the template continues."""
    if at == len(template):
        raise IllegalArgument("Illegal group reference: group index is missing")
    if template[at] == "{":
        name = _GROUP_NAME.match(template, at + 1)
        assert name is not None  # it also matches nothing
        if not name[0]:
            raise IllegalArgument("named capturing group has 0 length name")
        if not template.startswith("}", name.end()):
            raise IllegalArgument("named capturing group is missing trailing '}'")
        if name[0][0].isdigit():
            raise IllegalArgument(f"capturing group name {{{name[0]}}} starts with digit character")
        if name[0] not in match.re.groupindex:
            raise IllegalArgument(f"No group with name {{{name[0]}}}")
        return match[name[0]] or "", name.end() + 1
    if not "0" <= template[at] <= "9":
        raise IllegalArgument("Illegal group reference")
    number = int(template[at])
    if number > match.re.groups:
        raise IndexOutOfBounds(f"No group {number}")
    at += 1
    while at < len(template) and "0" <= template[at] <= "9":
        longer = number * 10 + int(template[at])
        if longer > match.re.groups:
            break
        number, at = longer, at + 1
    return match[number] or "", at


class RegexRouter(Transform):
    """Renames topics by a regular expression."""

    keeps_fields = True
    plugin = plugin("RegexRouter", REGEX_ROUTER)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._regex = compile_java(config[REGEX])
        self._replacement = config[REPLACEMENT]
        self._routes: dict[str, str | DataError] = {}

    def apply(self, records: Records, failed: Failed) -> Records:
        routes = self._routes
        for topic in set(records.topics):
            if topic not in routes:
                routes[topic] = self._route(topic)
        routed: list[str] = []
        for row, topic in enumerate(records.topics):
            route = routes[topic]
            if isinstance(route, DataError):
                failed[row] = route
                route = topic
            routed.append(route)
        return records.with_topics(routed)

    def _route(self, topic: str) -> str | DataError:
        if self._regex.fullmatch(topic) is None:
            return topic
        # With a lazy pattern, `find` may match only a part of it.
        match = self._regex.search(topic)
        assert match is not None  # the whole name matches
        try:
            routed = replacement(self._replacement, match)
        except DataError as error:
            return error
        return topic[: match.start()] + routed + topic[match.end() :]


class TimestampRouter(Transform):
    """Adds the records' timestamps to topic names."""

    keeps_fields = True
    plugin = plugin("TimestampRouter", TIMESTAMP_ROUTER)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._template = config[TOPIC_FORMAT]
        self._format: DateFormat | IllegalArgument
        try:
            self._format = DateFormat(config[TIMESTAMP_FORMAT])
        except PatternInvalid as cause:
            # Kafka Connect also fails with the first record.
            self._format = IllegalArgument(str(cause))
        self._routes: dict[tuple[str, int], str] = {}

    def apply(self, records: Records, failed: Failed) -> Records:
        format, routes = self._format, self._routes
        routed: list[str] = []
        for row, (topic, ms) in enumerate(zip(records.topics, records.timestamps, strict=True)):
            if ms is None:
                failed[row] = DataError(f"Timestamp missing on record: {_shown(records, row)}")
                routed.append(topic)
                continue
            if isinstance(format, IllegalArgument):
                failed[row] = format
                routed.append(topic)
                continue
            key = topic, ms // format.unit_ms
            route = routes.get(key)
            if route is None:
                if len(routes) >= _MOST_ROUTES:
                    routes.clear()
                named = self._template.replace("${topic}", topic)
                route = named.replace("${timestamp}", format.format(ms))
                routes[key] = route
            routed.append(route)
        return records.with_topics(routed)


_MOST_ROUTES: Final = 4096


def _shown(records: Records, row: int) -> str:
    """A record as in Java's `toString`; for a source, without its source partition and offset."""

    def side(name: str, schema: Schema | None, value: Value) -> str:
        return f"{name}={text(schema, value)}, {name}Schema={schema_text(schema)}"

    key = side("key", records.keys.schemas()[row], records.keys.values[row])
    value = side("value", records.values.schemas()[row], records.values.values[row])
    headers = ", ".join(
        f"ConnectHeader(key={header.name}, value={text(header.schema, header.value)}, "
        f"schema={schema_text(header.schema)})"
        for header in (records.headers[row] if records.headers else ())
    )
    headers = headers and f"[{headers}]"
    record = (
        f"ConnectRecord{{topic='{records.topics[row]}', "
        f"kafkaPartition={text(None, records.partitions[row])}, {key}, {value}, "
        f"timestamp=null, headers=ConnectHeaders(headers={headers})}}"
    )
    if not records.offsets:
        return f"SourceRecord{{sourcePartition={{}}, sourceOffset={{}}}} {record}"
    return (
        f"SinkRecord{{kafkaOffset={records.offsets[row]}, timestampType=NoTimestampType, "
        f"originalTopic={records.topics[row]}, originalKafkaPartition={records.partitions[row]}, "
        f"originalKafkaOffset={records.offsets[row]}}} {record}"
    )
