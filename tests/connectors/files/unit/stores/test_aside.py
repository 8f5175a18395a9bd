"""Bytes that wait in a file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from penstock.connectors.files.stores.aside import Aside


def test_bytes_that_were_put_aside_are_returned_once() -> None:
    aside = Aside()
    assert aside.taken() == b""
    assert aside.add([b"ab", memoryview(b"cd")])
    assert aside.add([b"e"])
    assert aside.size == 5
    assert aside.taken() == b"abcde"
    assert (aside.size, aside.taken()) == (0, b"")
    assert aside.add([b"again"])
    assert aside.taken() == b"again"


def test_where_no_file_can_be_made_nothing_is_put_aside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    aside = Aside()
    assert not aside.add([b"ab"])
    assert aside.taken() == b""
