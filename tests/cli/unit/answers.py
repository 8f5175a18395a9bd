"""Answers of workers that tests of several commands share (kafka-connect.md §1.5)."""

from __future__ import annotations

SINK = {"connector.class": "FileStreamSink", "topics": "t", "name": "snk"}
INFO = {"name": "snk", "config": SINK, "tasks": [{"connector": "snk", "task": 0}], "type": "sink"}
RUNNING = {"state": "RUNNING", "worker_id": "10.0.0.1:8083", "version": "4.2.0"}
PAUSED = {**RUNNING, "state": "PAUSED"}
STATUS = {"name": "snk", "connector": RUNNING, "tasks": [{"id": 0, **RUNNING}], "type": "sink"}


def not_found(message: str) -> tuple[int, object]:
    return 404, {"error_code": 404, "message": message}
