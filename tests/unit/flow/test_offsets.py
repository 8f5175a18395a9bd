"""Spark's offsets and Connect's."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from penstock.api import Offsets, SourceOffset
from penstock.flow import offsets

OFFSETS: list[tuple[Offsets, object]] = [
    ([], []),
    (
        [SourceOffset({"filename": "ö.txt"}, {"position": 7})],
        [[{"filename": "ö.txt"}, {"position": 7}]],
    ),
    (
        [SourceOffset({"a": 1, "b": None}, None), SourceOffset({}, {"x": 1.5, "y": True})],
        [[{"a": 1, "b": None}, None], [{}, {"x": 1.5, "y": True}]],
    ),
]


@pytest.mark.parametrize(("connect", "spark"), OFFSETS)
def test_offsets_are_the_same_on_both_sides(connect: Offsets, spark: object) -> None:
    assert offsets.to_spark(connect) == spark
    assert offsets.from_spark(spark) == connect


@pytest.mark.parametrize("offset", [[[{"f": "ö"}, {"p": 3}]], {"topic": {"0": 5}}, 7])
def test_a_seeded_checkpoint_has_reached_its_seed(tmp_path: Path, offset: object) -> None:
    offsets.seed(tmp_path, offset)
    assert offsets.reached(tmp_path, 0) == offset


def test_a_seeded_checkpoint_is_laid_out_as_spark_wants_it(tmp_path: Path) -> None:
    offsets.seed(tmp_path, [])
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "commits",
        "commits/0",
        "metadata",
        "offsets",
        "offsets/0",
    ]
    assert set(orjson.loads((tmp_path / "metadata").read_bytes())) == {"id"}
    version, batch, end = (tmp_path / "offsets" / "0").read_bytes().split(b"\n")
    assert (version, orjson.loads(end)) == (b"v1", [])
    assert orjson.loads(batch)["batchWatermarkMs"] == 0
    assert (tmp_path / "commits" / "0").read_bytes().startswith(b"v1\n")
