"""Decodes the failure in a dead letter's headers, `__connect.errors.*` (KIP-298,
kafka-connect.md §7.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "__connect.errors."

Headers = Sequence[tuple[str, bytes | None]]

_DIRECT: Final = re.compile(
    r"\n\n(?:The above exception was the direct cause|During handling of the above exception)"
)


@dataclass(frozen=True, slots=True)
class LetterHeaders:
    """Why a record is a dead letter; fields without a header are empty."""

    connector: str
    task: str
    stage: str
    class_name: str
    exception: str
    message: str
    cause: str  # the root cause, unless the message names it
    trace: str
    topic: str
    partition: str
    offset: str

    def document(self) -> dict[str, object]:
        """For a line of JSON: without the trace, which is in the headers."""
        members: Mapping[str, object] = {
            "connector": self.connector,
            "task": _number(self.task),
            "stage": self.stage,
            "class": self.class_name,
            "exception": self.exception,
            "message": self.message,
            "cause": self.cause,
            "topic": self.topic,
            "partition": _number(self.partition),
            "offset": _number(self.offset),
        }
        return {name: value for name, value in members.items() if value not in ("", None)}

    def lines(self, *, trace: bool = False) -> list[str]:
        """For people: which record of which connector, where it failed, and why."""
        lines = []
        if self.topic:
            place = f"{self.topic}-{self.partition}" if self.partition else self.topic
            lines.append(f"record: {place}@{self.offset}" if self.offset else f"record: {place}")
        if self.connector:
            task = f", task {self.task}" if self.task else ""
            lines.append(f"connector: {self.connector}{task}")
        if self.stage:
            lines.append(f"failed in: {self.stage}, {self.class_name}")
        reason = ": ".join(part for part in (self.exception, self.message) if part)
        if reason:
            lines.append(f"because: {reason}")
        if self.cause:
            lines.append(f"root cause: {self.cause}")
        if trace and self.trace:
            lines += self.trace.rstrip().splitlines()
        return lines


def letter(headers: Headers) -> LetterHeaders | None:
    """The failure that a record's headers describe; None if it is not a dead letter."""
    context: dict[str, str] = {}
    for name, value in headers:
        if name.startswith(PREFIX) and value is not None:
            context[name.removeprefix(PREFIX)] = value.decode("utf-8", "replace")
    if not context:
        return None
    trace, message = context.get("exception.stacktrace", ""), context.get("exception.message", "")
    cause = root_cause(trace)
    return LetterHeaders(
        connector=context.get("connector.name", ""),
        task=context.get("task.id", ""),
        stage=context.get("stage", ""),
        class_name=context.get("class.name", ""),
        exception=context.get("exception.class.name", ""),
        message=message,
        cause="" if cause.partition(": ")[2] in message else cause,
        trace=trace,
        topic=context.get("topic", ""),
        partition=context.get("partition", ""),
        offset=context.get("offset", ""),
    )


def root_cause(trace: str) -> str:
    """The innermost exception of a stack trace of Java or Python; empty if there is only one.

    >>> root_cause("java.lang.A: a\\n\\tat x\\nCaused by: java.lang.B: b\\n\\tat y")
    'java.lang.B: b'
    """
    causes = re.findall(r"^Caused by: (.*)$", trace, re.MULTILINE)
    if causes:
        return str(causes[-1]).strip()
    first, *others = _DIRECT.split(trace, maxsplit=1)
    return first.rstrip().rpartition("\n")[2].strip() if others else ""


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text
