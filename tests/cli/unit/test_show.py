"""What people see: secrets masked, colours on a terminal only, tables that can be copied."""

from __future__ import annotations

import sys

import pytest

from penstock.cli import show


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db.PassWord",
        "aws.secret.access.key",
        "oauth.token",
        "producer.override.sasl.jaas.config",
        "value.converter.basic.auth.user.info",
        "ssl.keystore.key",
    ],
)
def test_secrets_are_known_by_their_names(key: str) -> None:
    assert show.masked(key, "hunter2", False) == show.MASK
    assert show.masked(key, "hunter2", True) == "hunter2"
    assert show.masked(key, "${env:PW}", False) == "${env:PW}"
    assert show.masked(key, "${env:PW}x", False) == show.MASK
    assert show.masked(key, "", False) == ""


@pytest.mark.parametrize("key", ["topics", "key.converter", "file", "name", "ssl.keystore.type"])
def test_other_settings_are_shown(key: str) -> None:
    assert show.masked(key, "x", False) == "x"


class Terminal:
    """A standard output that says it is a terminal."""

    def __init__(self, wrapped: object) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> object:
        return getattr(self._wrapped, name)

    def isatty(self) -> bool:
        return True


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FORCE_COLOR", "1")
    show.table(("A", "STATE"), [("x" * 300, "RUNNING"), (None, "FAILED")])
    show.coloured([("-a", "red")])
    return capsys.readouterr().out


def test_no_colours_and_nothing_cut_where_there_is_no_terminal(printed: str) -> None:
    assert "\x1b" not in printed
    assert printed.splitlines() == [
        f"{'A':<300}  STATE",
        f"{'x' * 300}  RUNNING",
        f"{'':<300}  FAILED",
        "-a",
    ]


def test_colours_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    show.table(("STATE",), [("RUNNING",), ("FAILED",), ("other",)])
    lines = capsys.readouterr().out.splitlines()
    assert "\x1b[32mRUNNING\x1b[0m" in lines[1]
    assert "31mFAILED" in lines[2]
    assert "\x1b" not in lines[3]
    monkeypatch.setenv("NO_COLOR", "1")
    show.table(("STATE",), [("RUNNING",)])
    assert "\x1b[32m" not in capsys.readouterr().out
