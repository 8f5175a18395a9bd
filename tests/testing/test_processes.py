import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from penstock.errors import StartupFailed
from penstock.host.processes import Process, exit_words, last_words, worker_command
from penstock.testing.waiting import wait_until

Make = Callable[[str], Process]

ASKED_TO_END = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(3))\n"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
FOREVER = "import threading; threading.Event().wait(60)"
PARENT = "import subprocess, sys; child = subprocess.Popen(['sleep', '60']); print(child.pid)\n"
WAITING = "import signal; print('ready', flush=True); signal.pause()\n"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Process] = []

    def of(program: str) -> Process:
        process = Process([sys.executable, "-c", program], tmp_path / "log", tmp_path)
        made.append(process)
        return process

    yield of
    for process in made:
        process.stop(0)


def ready(process: Process) -> None:
    process.start()
    wait_until(lambda: "ready" in process.log.read_text(), 30, "the process to be ready")


def test_it_runs_in_its_folder_and_says_everything_to_its_log(make: Make, tmp_path: Path) -> None:
    process = make("import os, sys; print(os.getcwd(), flush=True); sys.exit('and an error')")
    assert process.pid is None
    assert process.ended is None
    process.start()
    wait_until(lambda: process.ended is not None, 30, "its end")
    assert process.ended == 1
    assert process.log.read_text() == f"{tmp_path}\nand an error\n"


def test_one_that_has_ended_may_be_started_again(make: Make) -> None:
    process = make("print('once')")
    for _ in range(2):
        process.start()
        wait_until(lambda: process.ended == 0, 30, "its end")
    assert process.log.read_text() == "once\nonce\n"


def test_one_that_ended_by_itself_is_reported_with_its_last_words(make: Make) -> None:
    process = make("import sys; sys.exit('no such setting')")
    process.check()
    process.start()
    wait_until(lambda: process.ended is not None, 30, "its end")
    with pytest.raises(StartupFailed, match=r"(?s)The worker .*exit code 1.*no such setting"):
        process.check()


def test_a_process_that_ends_is_reported_with_its_own_log_and_a_remark(tmp_path: Path) -> None:
    (tmp_path / "own.log").write_text("the disk is full\n")
    command = [sys.executable, "-c", "import sys; sys.exit('so it ends')"]
    process = Process(command, tmp_path / "log", name="Kafka", logs=[tmp_path / "own.log"])
    process.start()
    process.wait()
    reported = (
        r"(?s)Kafka exited unexpectedly \(exit code 1\); 3 MB are free\. .*so it ends\n"
        r"the disk is full"
    )
    with pytest.raises(StartupFailed, match=reported):
        process.check(lambda: "; 3 MB are free")


def test_a_condition_is_waited_for_while_it_lives(make: Make) -> None:
    process = make(f"print('ready', flush=True); {FOREVER}")
    process.start()
    process.wait_for(lambda: "ready" in process.log.read_text(), 30, "it to be ready")
    process.kill()
    with pytest.raises(StartupFailed, match=r"(?s)killed by SIGKILL.*ready"):
        process.wait_for(lambda: False, 30, "what never is")


def test_waiting_for_a_condition_is_bounded(make: Make) -> None:
    with make(FOREVER) as process:
        assert process.alive
        with pytest.raises(TimeoutError, match="what never is"):
            process.wait_for(lambda: False, 0, "what never is")
    assert not process.alive


def test_it_is_asked_to_end_and_its_exit_code_told(make: Make) -> None:
    process = make(ASKED_TO_END + WAITING)
    ready(process)
    process.check()
    assert process.end(30) == 3
    assert process.stop(30), "it has ended already"


def test_one_that_does_not_end_is_killed_and_that_is_said(make: Make) -> None:
    process = make(DEAF + WAITING)
    ready(process)
    with pytest.raises(TimeoutError, match="did not end"):
        process.end(0.1)
    assert process.alive
    assert not process.stop(0.1)
    assert process.ended == -signal.SIGKILL


@pytest.mark.parametrize("how", ["stop", "kill_all"])
def test_child_processes_end_with_it(make: Make, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.host.processes._LEFTOVERS_S", 0.2)
    process = make(PARENT + WAITING)
    ready(process)
    child = psutil.Process(int(process.log.read_text().split()[0]))
    if how == "stop":
        assert process.stop(30)
    else:
        process.kill_all()
    wait_until(
        lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 30, "its end"
    )
    assert not process.alive or process.stop(30)


def test_killed_alone_it_leaves_its_children_to_themselves(make: Make) -> None:
    process = make(PARENT + WAITING)
    ready(process)
    child = psutil.Process(int(process.log.read_text().split()[0]))
    process.kill()
    assert process.ended == -signal.SIGKILL
    assert child.status() != psutil.STATUS_ZOMBIE
    os.kill(child.pid, signal.SIGKILL)


def test_it_has_a_session_of_its_own(make: Make) -> None:
    process = make(WAITING)
    ready(process)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_a_worker_is_started_with_this_interpreter() -> None:
    command = worker_command(Path("some.properties"))
    assert command == [sys.executable, "-m", "penstock", "distributed", "some.properties"]


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
