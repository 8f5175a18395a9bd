"""The sink that drops its records."""

from __future__ import annotations

from penstock.api import Records
from penstock.connectors.blackhole import BlackholeSink
from penstock.testing.contexts import SinkContextStub


def _written(**settings: str) -> dict[int, Exception]:
    connector = BlackholeSink()
    config = connector.plugin.config.parse(settings)
    records = Records.of("t", list(range(1000)))
    records.partitions, records.offsets = [0] * 1000, list(range(1000))
    failed: dict[int, Exception] = {}
    connector.open(config, SinkContextStub()).write(records, failed)
    return failed


def test_records_are_taken() -> None:
    assert _written() == {}


def test_a_share_of_them_is_refused_always_the_same() -> None:
    failed = _written(**{"blackhole.error.rate": "0.2"})
    assert 150 < len(failed) < 250
    assert failed.keys() == _written(**{"blackhole.error.rate": "0.2"}).keys()
    assert len(_written(**{"blackhole.error.rate": "1"})) == 1000
    assert "blackhole.error.rate" in str(next(iter(failed.values())))
