"""What the driver's JVM is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.flow.spark.session import java_options, sockets, temporary


@pytest.mark.parametrize(("encrypted", "optimizes"), [(False, False), (True, True)])
def test_java_goes_without_its_optimizing_compiler_where_nothing_is_encrypted(
    encrypted: bool, optimizes: bool
) -> None:
    options = java_options(None, encrypted=encrypted).split()
    assert ("-XX:TieredStopAtLevel=1" not in options) is optimizes
    assert "-XX:NewRatio=1" in options
    assert any(option.startswith("-Dlog4j2.configurationFile=") for option in options)


def test_a_users_options_take_the_place_of_ours() -> None:
    mine, *ours = java_options("-Xss8m", encrypted=False).split()
    assert mine == "-Xss8m"
    assert [option.partition("=")[0] for option in ours] == ["-Dlog4j2.configurationFile"]


def test_a_user_may_log_otherwise() -> None:
    given = "-Dlog4j2.configurationFile=my.properties"
    assert java_options(given, encrypted=True) == given


def test_local_sockets_need_a_short_name() -> None:
    assert sockets(Path("/dev/shm/penstock-4194304"))  # no process has a higher number
    longest = Path("/" + 60 * "x")
    assert sockets(longest)["spark.python.unix.domain.socket.dir"] == str(longest)
    assert sockets(Path("/" + 61 * "x")) == {}


def test_the_jvm_puts_temporary_files_where_all_programs_do() -> None:
    assert temporary(None, None) == temporary(None, "") == []
    assert temporary("-Xss8m", "/data/t") == ["-Djava.io.tmpdir=/data/t"]
    assert temporary(None, "/a b") == ["'-Djava.io.tmpdir=/a b'"]
    assert temporary("-Djava.io.tmpdir=/x", "/data/t") == []
