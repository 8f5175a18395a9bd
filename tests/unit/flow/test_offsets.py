"""How far a batch has read."""

from __future__ import annotations

from pathlib import Path

from penstock.flow import offsets


def test_the_last_line_of_a_batch_says_how_far_it_reached(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    entry = tmp_path / "offsets" / "3"
    entry.write_bytes(b'v1\n{"batchWatermarkMs":0}\n{"t\xc3\xb6pic":{"0":5}}')
    assert offsets.reached(tmp_path, 3) == {"töpic": {"0": 5}}
