"""Options that decode BSON: dates in UTC, also ones outside Python's range; UUIDs stay binary."""

from __future__ import annotations

from typing import Any, Final

from bson.codec_options import CodecOptions, DatetimeConversion

OPTIONS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    document_class=dict, tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
