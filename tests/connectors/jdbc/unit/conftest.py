"""What tests of the JDBC connectors share."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .shop import Shop


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "jars" / "driver.jar"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/services/java.sql.Driver", "some.Driver")
        archive.writestr("some/Driver.class", b"")
    (path.parent / "other.JAR").write_bytes(b"no archive")
    (path.parent / "notes.txt").write_text("no jar")
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop.db")
    yield shop
    for reader in shop.opened:
        reader.close()
