"""A sink that discards its records, for load tests and benchmarks of everything before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from penstock.api import (
    VERSION,
    DataError,
    Failed,
    Plugin,
    Records,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import (
    LOW,
    Config,
    ConfigDef,
    double,
    long,
)

# fmt: off
DELAY: Final = long("blackhole.delay.ms", 0,
    "How long writing a batch takes, to simulate a slow target.", at_least=0, importance=LOW)
ERROR_RATE: Final = double("blackhole.error.rate", 0.0,
    "The fraction of records that are rejected, always the same ones; to test dead letter queues.",
    at_least=0, at_most=1, importance=LOW)
# fmt: on


class BlackholeSink(SinkConnector):
    """Discards all records."""

    plugin = Plugin(
        class_name="io.penstock.blackhole.BlackholeSinkConnector",
        version=VERSION,
        config=ConfigDef(DELAY, ERROR_RATE),
    )

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return BlackholeWriter(config[DELAY], config[ERROR_RATE], context)


class BlackholeWriter(SinkWriter):
    takes_fields = True

    def __init__(self, delay_ms: int, error_rate: float, context: SinkContext) -> None:
        self._delay_s = delay_ms / 1000
        self._refused = int(error_rate * 2**32)
        self._context = context

    def write(self, records: Records, failed: Failed) -> None:
        if self._delay_s:
            self._context.wait(self._delay_s)
        if not self._refused:
            return
        for row, offset in enumerate(records.offsets):
            record_id = f"{records.topics[row]}-{records.partitions[row]}@{offset}"
            if crc32(record_id.encode()) < self._refused:
                failed[row] = DataError(f"Record {record_id} is rejected ({ERROR_RATE.name})")
