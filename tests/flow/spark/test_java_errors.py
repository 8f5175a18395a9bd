"""Traces of errors whose text a JVM has."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from unittest.mock import patch

import pytest
from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError, get_return_value

from penstock.errors import StartupFailed
from penstock.flow import traces
from penstock.flow.traces import message_of, trace_of
from penstock.host import jars

_CALLED = "An error occurred while calling z:java.lang.Integer.parseInt."
_SILENT = f"{_CALLED} (the JVM does not respond)"


@pytest.fixture
def jvm() -> Iterator[Popen[str]]:
    """A JVM that prints the port of its py4j server."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    [classes] = (Path(spec.origin).parent / "jars").glob("py4j-*.jar")
    command = [jars.java(), "-Xmx64m", "-cp", str(classes), "py4j.GatewayServer", "0"]
    # A Spark session of this process left a hook that would ask Spark's JVM about the error.
    with (
        patch.object(java_gateway, "get_return_value", get_return_value),
        Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True) as process,
    ):
        yield process
        process.kill()


@pytest.fixture
def error(jvm: Popen[str]) -> Iterator[Py4JJavaError]:
    """An error that was raised in the JVM."""
    assert jvm.stdout is not None
    port = int(jvm.stdout.readline())
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, enable_memory_management=False)
    )
    with pytest.raises(Py4JJavaError) as caught:
        gateway.jvm.java.lang.Integer.parseInt("no number")
    yield caught.value
    gateway.close()


def test_a_java_error_has_the_text_of_its_jvm(error: Py4JJavaError) -> None:
    assert 'java.lang.NumberFormatException: For input string: "no number"' in trace_of(error).text
    assert message_of(error).startswith(_CALLED)


def test_a_java_error_has_a_trace_when_its_jvm_has_ended(
    jvm: Popen[str], error: Py4JJavaError
) -> None:
    jvm.kill()
    jvm.wait()
    assert trace_of(error).summary == f"Py4JJavaError: {_SILENT}"
    failure = StartupFailed("Spark did not start.")
    failure.__cause__ = error
    assert message_of(failure) == f"Spark did not start. (caused by Py4JJavaError: {_SILENT})"


def test_a_java_error_has_a_trace_when_its_jvm_does_not_respond(
    jvm: Popen[str], error: Py4JJavaError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "_JVM_S", 0.1)
    os.kill(jvm.pid, signal.SIGSTOP)
    assert trace_of(error).summary == f"Py4JJavaError: {_SILENT}"
