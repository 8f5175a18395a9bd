"""A source whose polls are scripted by its configuration; it notes its calls."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from pyspark import cloudpickle

from penstock.api import (
    DataError,
    Offsets,
    Plugin,
    Polled,
    Props,
    Records,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
    Transaction,
    Unavailable,
)
from penstock.api.schema import STRING as STRING_SCHEMA
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TOPIC = Key("topic", STRING, importance=HIGH, doc="Where records go.")
FOLDER = Key("folder", STRING, importance=HIGH, doc="Where calls are noted.")
STEPS = Key("steps", STRING, importance=HIGH, doc="What polls give, as JSON.")

PARTITION = {"of": "steps"}


class Steps(SourceConnector):
    """Returns what `steps` say, in order, and resumes after the stored step.

    A step has `values`; `stored`, whether it has an offset (true by default); the name of a
    `transaction`; `parts`, each with values and commas; `bad`, a value that the reader cannot
    build; and `gate`, a file that must exist first: until then, with `away`, the system is
    unavailable.
    """

    plugin = Plugin("test.Steps", "1", ConfigDef(TOPIC, FOLDER, STEPS), task_class="test.StepsTask")

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def exactly_once(self, config: Config) -> bool:
        return True

    def defines_transactions(self, config: Config) -> bool:
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return StepReader(config, context)


class StepReader(SourceReader):
    idle_ms = 20

    def __init__(self, config: Config, context: SourceContext) -> None:
        self._topic = config[TOPIC]
        self._folder = Path(config[FOLDER])
        self._steps: list[dict[str, Any]] = orjson.loads(config[STEPS])
        self._context = context
        stored = context.stored_offset(PARTITION)
        self._next = 0 if stored is None else int(stored["step"] or 0)
        self.note("open", [each.offset for each in context.stored_offsets])

    def note(self, *call: Any) -> None:
        with (self._folder / "calls").open("ab") as out:
            out.write(orjson.dumps(call) + b"\n")

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if self._next == len(self._steps):
            return None
        step = self._steps[self._next]
        gate = step.get("gate")
        if gate and not (self._folder / gate).exists():
            if step.get("away"):
                self.note("away")
                raise Unavailable("the system is away")
            return None
        if step.get("fails"):
            raise ValueError("there is no such step")
        if step.get("commit"):
            self._context.request_commit()
        if "bad" in step:
            error = DataError(f"{step['bad']} is no record")
            self._context.report(Records.of(self._topic, [step["bad"]]), error)
        self._next += 1
        offsets: Offsets = [SourceOffset(PARTITION, {"step": self._next})]
        return Polled(
            self._records(step.get("values", [])),
            offsets if step.get("stored", True) else (),
            Transaction(step.get("transaction", "open")),
            step.get("parts", ()),
        )

    def read(self, part: str) -> Iterator[Records]:
        """At a gate, it waits until such a file exists or the task stops; `!` fails."""
        self.note("part", part, os.getpid())
        for value in part.split(","):
            if value == "!":
                raise ValueError("there is no such part")
            if value.startswith("gate"):
                self.note("waits", value)
                while not (self._folder / value).exists() and self._context.is_running:
                    self._context.wait(0.05)
                continue
            yield self._records([value])

    def committed(self, offsets: Offsets) -> None:
        stored = self._context.stored_offset(PARTITION)
        self.note("committed", step(offsets), stored and stored["step"])

    def close(self) -> None:
        self.note("close", threading.current_thread().name)

    def _records(self, values: list[str]) -> Records:
        return Records.of(self._topic, values, schema=STRING_SCHEMA)


def step(offsets: Offsets) -> Any:
    """The step of stored offsets."""
    return dict(offsets[-1].offset or {})["step"]


def following(topic: str, folder: Path, *steps: Mapping[str, Any]) -> dict[str, Any]:
    """The connector part of a task's plan, with these steps."""
    folder.mkdir(exist_ok=True)
    props = {"topic": topic, "folder": str(folder), "steps": orjson.dumps(steps).decode()}
    return {"connector": Steps, "config": Steps.plugin.config.parse(props)}


def calls(folder: Path, *kinds: str) -> list[list[Any]]:
    """The calls so far, in order; of these kinds, if any are named."""
    file = folder / "calls"
    lines = file.read_bytes().splitlines() if file.exists() else []
    found = [orjson.loads(line) for line in lines]
    return [call for call in found if not kinds or call[0] in kinds]
