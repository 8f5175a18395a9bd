import os
import signal
import sys
from pathlib import Path

import pytest

from penstock.demo.processes import BrokerProcess, DemoInterrupted, Interrupts
from penstock.errors import StartupFailed
from penstock.host.processes import Process
from penstock.kafka.broker import Broker


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def hold_over(steps: list[str]) -> None:
    with Interrupts() as interrupts, interrupts.held():
        interrupt()
        steps.append("whole")
    steps.append("not reached")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_becomes_an_interruption_with_the_shell_s_exit_code(number: int) -> None:
    with Interrupts(), pytest.raises(DemoInterrupted) as raised:
        interrupt(number)
    assert raised.value.exit_code == 128 + number


def test_a_held_signal_comes_after_the_block() -> None:
    steps: list[str] = []
    with pytest.raises(DemoInterrupted):
        hold_over(steps)
    assert steps == ["whole"]


def test_a_second_signal_does_not_disturb_the_clean_up_but_hurries_it() -> None:
    killed: list[str] = []
    with Interrupts() as interrupts:
        interrupts.hurry.append(lambda: killed.append("worker"))
        with pytest.raises(DemoInterrupted):
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


def test_a_broker_that_ended_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    command = [sys.executable, "-c", "print('no space left')"]
    broker._process = Process(command, tmp_path / "broker.out", name="Kafka")
    broker._process.start()
    broker._process.wait()
    reported = r"(?s)Kafka exited unexpectedly \(exit code 0\); \d+ MB are free .*no space left"
    with pytest.raises(StartupFailed, match=reported):
        BrokerProcess(broker).check()
