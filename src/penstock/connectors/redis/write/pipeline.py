"""Sends commands in pipelines, and evaluates the replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.connectors.redis.client.errors import (
    Meaning,
    RedisUnavailable,
    error_of,
    fatal,
    meaning_of,
    not_alone,
    target_of,
)
from penstock.connectors.redis.client.packing import pack
from penstock.connectors.redis.client.servers import Node, Servers
from penstock.connectors.redis.write.commands import Commands
from penstock.connectors.redis.write.plan import Limits

_MULTI: Final = pack(b"MULTI")
_EXEC: Final = pack(b"EXEC")
_ASKING: Final = pack(b"ASKING")
_ERROR: Final = 45  # -
_PROTOCOL_ERROR: Final = "ERR Protocol error"


@dataclass(slots=True)
class Outcome:
    """The results of commands, by number: `refused` with the reason; `again`: to be retried,
    because of `why`; `waits`: only after a pause; `broken`: a connection broke."""

    refused: dict[int, str] = field(default_factory=dict)
    again: list[int] = field(default_factory=list)
    why: str = ""
    waits: bool = False
    broken: bool = False


class Pipeline:
    """Sends the commands of one task."""

    def __init__(self, servers: Servers, limits: Limits) -> None:
        self._servers = servers
        self._limits = limits
        self._unconfirmed: dict[Node, None] = {}

    def send(self, commands: Commands, numbers: Sequence[int]) -> Outcome:
        """Sends these commands, in order for each key. Raises RedisRefused if the server refuses
        all commands of a kind, RedisUnavailable if no server is found."""
        outcome = Outcome()
        for node, own in self._by_node(commands, numbers):
            self._unconfirmed[node] = None
            rest: Sequence[int] = own
            while rest:
                rest = self._send_to(node, commands, rest, outcome)
        outcome.again.sort()
        return outcome

    def confirm(self) -> None:
        """Waits until the replicas have all writes. Raises RedisUnavailable if they do not in
        time."""
        limits = self._limits
        if not limits.replicas:
            self._unconfirmed = {}
        wait = pack(b"WAIT", b"%d" % limits.replicas, b"%d" % limits.replicas_ms)
        for node in list(self._unconfirmed):
            received, error = node.link.exchange([wait], 1)
            if error is not None:
                raise error_of(error, f"Cannot wait for the replicas of {node.address}")
            if received[0][:1] != b":" or int(received[0][1:]) < limits.replicas:
                raise RedisUnavailable(
                    f"Only {received[0][1:].decode()} replicas of {node.address} have the records "
                    f"after {limits.replicas_ms} ms; redis.wait.replicas is {limits.replicas}"
                )
            del self._unconfirmed[node]

    def _by_node(
        self, commands: Commands, numbers: Sequence[int]
    ) -> list[tuple[Node, Sequence[int]]]:
        servers, keys = self._servers, commands.keys
        if not servers.is_cluster:
            return [(servers.node(b""), numbers)]
        by_node: dict[Node, list[int]] = {}
        for number in numbers:
            by_node.setdefault(servers.node(keys[number]), []).append(number)
        return list(by_node.items())

    def _send_to(
        self, node: Node, commands: Commands, numbers: Sequence[int], outcome: Outcome
    ) -> Sequence[int]:
        """Sends commands to one server; returns the remaining ones if a command has broken the
        connection."""
        limits = self._limits
        pipelines = commands.cut(numbers, limits.records, limits.bytes)
        for index, pipeline in enumerate(pipelines):
            if limits.transactions:
                errors, answered, broken = self._transact(node, commands, pipeline)
            else:
                errors, answered, broken = self._exchange(node, commands, pipeline)
            self._evaluate(node, commands, errors, outcome)
            if broken is None:
                continue
            rest = [
                *pipeline[answered:],
                *(number for later in pipelines[index + 1 :] for number in later),
            ]
            if any(text.startswith(_PROTOCOL_ERROR) for _, text in errors):
                return rest  # one command's contents made the server close the connection
            self._servers.refresh()
            outcome.again += rest
            outcome.waits = outcome.broken = True
            outcome.why = str(error_of(broken, f"No response from {node.address}"))
            break
        return ()

    def _exchange(
        self, node: Node, commands: Commands, numbers: Sequence[int]
    ) -> tuple[list[tuple[int, str]], int, Exception | None]:
        """The errors by number, the number of answered commands, and the connection's error."""
        if not commands.more:
            received, broken = node.link.exchange(commands.bytes_of(numbers), len(numbers))
            errors = [
                (number, _text(reply))
                for number, reply in zip(numbers, received, strict=False)
                if reply[0] == _ERROR
            ]
            return errors, len(received), broken
        expected = sum(commands.replies(number) for number in numbers)
        received, broken = node.link.exchange(commands.bytes_of(numbers), expected)
        return (*_grouped(commands, numbers, received), broken)

    def _transact(
        self, node: Node, commands: Commands, numbers: Sequence[int]
    ) -> tuple[list[tuple[int, str]], int, Exception | None]:
        data = [_MULTI, *commands.bytes_of(numbers), _EXEC]
        queued = len(data) - 2
        received, broken = node.link.exchange(data, len(data))
        if broken is not None:
            # The transaction may be complete, or not executed at all.
            return [], 0, broken
        if received[queued + 1][0] != _ERROR:
            return (*_grouped(commands, numbers, received[queued + 2 :]), None)
        refused, _ = _grouped(commands, numbers, received[1 : queued + 1])
        reasons = dict(refused)
        aborted = _text(received[queued + 1])
        return [(number, reasons.get(number, aborted)) for number in numbers], len(numbers), None

    def _evaluate(
        self,
        node: Node,
        commands: Commands,
        errors: Sequence[tuple[int, str]],
        outcome: Outcome,
    ) -> None:
        for number, text in errors:
            match meaning_of(text):
                case Meaning.RECORD:
                    outcome.refused[number] = text
                case Meaning.FATAL:
                    raise fatal(text)
                case Meaning.ASK:
                    self._ask(node, commands, number, text, outcome)
                case Meaning.MOVED:
                    if not self._servers.is_cluster:
                        raise not_alone(node.address)
                    target = self._servers.at(*target_of(text), redirected_by=node)
                    self._servers.moved(commands.keys[number], target)
                    outcome.again.append(number)
                    outcome.why = text
                case meaning:
                    if meaning is Meaning.DEMOTED:
                        self._servers.refresh()
                        node.link.close()
                    outcome.again.append(number)
                    outcome.why = f"{node.address} answers: {text}"
                    outcome.waits = outcome.waits or not text.startswith("EXECABORT")

    def _ask(
        self, node: Node, commands: Commands, number: int, text: str, outcome: Outcome
    ) -> None:
        """Sends a command to the node that its key is moved to."""
        target = self._servers.at(*target_of(text), redirected_by=node)
        data = [part for packed in commands.bytes_of([number]) for part in (_ASKING, packed)]
        received, broken = target.link.exchange(data, len(data))
        error = next((_text(reply) for reply in received if reply[0] == _ERROR), None)
        if broken is not None or (error is not None and meaning_of(error) is not Meaning.RECORD):
            outcome.again.append(number)
            outcome.waits = True
            outcome.why = error or str(broken)
        elif error is not None:
            outcome.refused[number] = error


def _text(reply: bytes) -> str:
    return reply[1:].decode("utf-8", "replace")


def _grouped(
    commands: Commands, numbers: Sequence[int], received: Sequence[bytes]
) -> tuple[list[tuple[int, str]], int]:
    """The first error of each command by number, and the number of fully answered commands."""
    errors: list[tuple[int, str]] = []
    position = 0
    for answered, number in enumerate(numbers):
        count = commands.replies(number)
        own = received[position : position + count]
        error = next((_text(reply) for reply in own if reply[0] == _ERROR), None)
        if error is not None and error.startswith(_PROTOCOL_ERROR):
            return [*errors, (number, error)], answered + 1
        if len(own) < count:
            return errors, answered
        if error is not None:
            errors.append((number, error))
        position += count
    return errors, len(numbers)
