import os
import signal
from pathlib import Path

import pytest

from penstock.demo.processes import Interrupted, Interrupts, exit_words, last_words


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def hold_over(steps: list[str]) -> None:
    with Interrupts() as interrupts, interrupts.held():
        interrupt()
        steps.append("whole")
    steps.append("not reached")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_becomes_an_interruption_with_the_shell_s_exit_code(number: int) -> None:
    with Interrupts(), pytest.raises(Interrupted) as raised:
        interrupt(number)
    assert raised.value.exit_code == 128 + number


def test_a_held_signal_comes_after_the_block() -> None:
    steps: list[str] = []
    with pytest.raises(Interrupted):
        hold_over(steps)
    assert steps == ["whole"]


def test_a_second_signal_does_not_disturb_the_clean_up_but_hurries_it() -> None:
    killed: list[str] = []
    with Interrupts() as interrupts:
        interrupts.hurry.append(lambda: killed.append("worker"))
        with pytest.raises(Interrupted):
            interrupt()
        assert killed == []
        interrupt()
    assert killed == ["worker"]


def test_a_signal_during_the_clean_up_is_remembered() -> None:
    with Interrupts() as interrupts:
        interrupts.ending()
        interrupt(signal.SIGTERM)
    assert interrupts.received == signal.SIGTERM


def test_the_handlers_of_before_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_exit_codes_are_said_in_words() -> None:
    assert exit_words(2) == "exit code 2"
    assert exit_words(-9) == "killed by SIGKILL"


def test_last_words_are_the_end_of_a_log_of_any_size(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert last_words(log, 2) == "line 99998\nline 99999"
    log.write_text("")
    assert last_words(log) == "(nothing)"
    assert "No such file" in last_words(tmp_path / "missing")
