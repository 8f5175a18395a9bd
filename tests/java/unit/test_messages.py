"""What goes over the connection to a Java host."""

from __future__ import annotations

import pytest

from penstock.ids import TaskId
from penstock.java import messages as m

TASK = TaskId("c", 3)
CONFIG = {"name": "c", "none": None}
ABOUT_TASK = {"connector": "c", "task": 3, "run": 7}


@pytest.mark.parametrize(
    ("order", "json"),
    [
        (m.FindPlugins({"plugin.path": "/p"}), {"do": "find", "worker": {"plugin.path": "/p"}}),
        (
            m.OpenHost({"group.id": "g"}, "host:1", "id"),
            {"do": "open", "worker": {"group.id": "g"}, "workerId": "host:1", "kafkaCluster": "id"},
        ),
        (m.Validate(CONFIG), {"do": "validate", "config": CONFIG}),
        (
            m.StartJavaConnector("c", 7, CONFIG),
            {"do": "startConnector", "connector": "c", "run": 7, "config": CONFIG},
        ),
        (m.StopJavaConnector("c"), {"do": "stopConnector", "connector": "c"}),
        (
            m.GenerateTaskConfigs("c", CONFIG),
            {"do": "taskConfigs", "connector": "c", "config": CONFIG},
        ),
        (
            m.StartJavaTask(TASK, 7, CONFIG, {"a": "b"}, True),
            {
                "do": "startTask",
                **ABOUT_TASK,
                "config": CONFIG,
                "taskConfig": {"a": "b"},
                "exactlyOnce": True,
            },
        ),
        (m.AllowStart(TASK, 7, None), {"do": "allowStart", **ABOUT_TASK, "refusal": None}),
        (m.StopJavaTask(TASK, 7), {"do": "stopTask", **ABOUT_TASK}),
        (m.ReadOffsets("c", CONFIG), {"do": "offsets", "connector": "c", "config": CONFIG}),
        (
            m.AlterOffsets("c", CONFIG, None),
            {"do": "alterOffsets", "connector": "c", "config": CONFIG, "offsets": None},
        ),
        (m.CloseHost(), {"do": "close"}),
    ],
)
def test_an_order_has_a_number_and_its_fields(order: m.Order, json: m.Json) -> None:
    assert m.encoded(5, order) == {"id": 5, **json}


ERROR = {"class": "java.lang.X", "message": None, "trace": "java.lang.X\n\tat y", "retriable": True}
CAUSE = m.Cause("java.lang.X", "", "java.lang.X\n\tat y", True)


@pytest.mark.parametrize(
    ("frame", "event"),
    [
        (
            {"event": "connectorFailed", "connector": "c", "run": 7, "error": ERROR},
            m.JavaConnectorFailed("c", 7, CAUSE),
        ),
        (
            {"event": "reconfigure", "connector": "c", "run": 7},
            m.JavaReconfiguration("c", 7),
        ),
        ({"event": "taskStarted", **ABOUT_TASK}, m.JavaTaskStarted(TASK, 7)),
        ({"event": "taskFailed", **ABOUT_TASK, "error": ERROR}, m.JavaTaskFailed(TASK, 7, CAUSE)),
        ({"event": "producerReady", **ABOUT_TASK}, m.ProducerReady(TASK, 7)),
        ({"event": "exiting", "thread": "t", "trace": "\n\tat z"}, m.Exiting("t", "\n\tat z")),
    ],
)
def test_an_event_is_a_value(frame: m.Json, event: m.Event) -> None:
    assert m.event(frame) == event


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown event 'new'"):
        m.event({"event": "new"})


def test_an_error_without_a_message_is_shown_by_its_class() -> None:
    error = m.JavaError(CAUSE)
    assert str(error) == "java.lang.X"
    assert error.java_name == "java.lang.X"
