"""The transforms that come with Couchbase's connector, for records of its source."""

from __future__ import annotations

from typing import Final

import orjson

from penstock.api import VERSION, Column, DataError, Failed, Header, Plugin, Records, Transform
from penstock.api.schema import BOOLEAN, Value
from penstock.api.settings import ConfigDef

_PACKAGE: Final = "com.couchbase.connect.kafka.transform."
IS_OBJECT: Final = "couchbase.value.is.json.object"


class DeserializeJson(Transform):
    """Parses values that are bytes as JSON, so that further transforms can process them. Leaves
    nulls unchanged."""

    plugin = Plugin(class_name=f"{_PACKAGE}DeserializeJson", version=VERSION, config=ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        values: list[Value] = []
        objects: list[int] = []
        for row, value in enumerate(records.values.values):
            if value is not None:
                try:
                    value = _read(value)
                except DataError as error:
                    failed[row] = error
                if isinstance(value, dict):
                    objects.append(row)
            values.append(value)
        changed = records.with_values(Column(values, records.values.runs))
        if not objects:
            return changed
        headers = list(records.headers) or [()] * len(records)
        for row in objects:
            headers[row] = (*headers[row], Header(IS_OBJECT, True, BOOLEAN))
        return changed.with_headers(headers)


class DropIfNullValue(Transform):
    """Drops records whose value is null."""

    plugin = Plugin(class_name=f"{_PACKAGE}DropIfNullValue", version=VERSION, config=ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        values = records.values.values
        return records.only([row for row, value in enumerate(values) if value is not None])


def _read(value: Value) -> Value:
    if not isinstance(value, bytes):
        raise DataError(
            "DeserializeJson transform expected value to be a byte array or ByteBuffer but got "
            f"{type(value).__name__}"
        )
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise DataError(
            "DeserializeJson transform expected value to be JSON but got something else."
        ) from error
