"""Sends jobs: lanes in parallel, the jobs of a lane one after the other, with retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from penstock.api import DataError, PenstockError, TaskContext
from penstock.connectors.http.client.access import Client
from penstock.connectors.http.client.messages import (
    Answer,
    Refused,
    TooLarge,
    Unreachable,
    retry_after_ms,
)
from penstock.connectors.http.write.plan import Retry, SinkPlan
from penstock.connectors.http.write.requests import Job, halves

BUSY: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses that concern the server, not the record."""

DIVIDED: Final = frozenset({400, 413, 422})
"""Statuses with which a server refuses a whole body."""

_LOOK_S: Final = 0.2


@dataclass(slots=True)
class Outcome:
    """The results of jobs: those the server has accepted, with the response; and refused ones, with
    response or error. After an `error` the remaining jobs have no result."""

    taken: list[tuple[Job, Answer]] = field(default_factory=list)
    refused: list[tuple[Job, Answer | None, Exception]] = field(default_factory=list)
    error: Exception | None = None


class Sender:
    """Sends jobs on one event loop. `gives_up`: refuse records after all retries if the server is
    unavailable, instead of waiting for it. `stops`: start no more jobs after a refused one."""

    def __init__(
        self,
        plan: SinkPlan,
        client: Client,
        context: TaskContext,
        *,
        gives_up: bool,
        stops: bool = False,
        chance: random.Random | None = None,
    ) -> None:
        self._plan = plan
        self._client = client
        self._context = context
        self._gives_up = gives_up
        self._stops = stops
        self._chance = chance or random.Random()

    async def send(self, lanes: list[list[Job]]) -> Outcome:
        """Sends all jobs, or stops at an error, or at a refused job if `stops`."""
        outcome = Outcome()
        pending = iter(lanes)
        workers = min(self._plan.in_flight, len(lanes))
        await asyncio.gather(*(self._work(pending, outcome) for _ in range(workers)))
        return outcome

    async def _work(self, pending: Iterator[list[Job]], outcome: Outcome) -> None:
        for lane in pending:
            for job in lane:
                if outcome.error is not None or (self._stops and outcome.refused):
                    return
                try:
                    await self._settle(job, outcome)
                except Exception as error:
                    outcome.error = outcome.error or error
                    return

    async def _settle(self, job: Job, outcome: Outcome) -> None:
        """Sends a job until it is accepted or refused."""
        retry = self._plan.retry
        tries = 0
        while True:
            tries += 1
            answer: Answer | None = None
            try:
                answer = await self._client.send(job.request)
            except Unreachable as error:
                failure: PenstockError = error
            except (DataError, TooLarge) as error:
                outcome.refused.append((job, None, error))
                return
            else:
                if answer.ok:
                    outcome.taken.append((job, answer))
                    return
                batch = self._plan.batch
                divides = batch is not None and batch.divides and len(job.rows) > 1
                if divides and answer.status in DIVIDED:
                    assert batch is not None
                    for half in halves(batch, job):
                        if self._stops and outcome.refused:
                            return
                        await self._settle(half, outcome)
                    return
                failure = Refused(
                    f"{job.request.method} {job.request.url}: {answer.summary()}", answer.status
                )
            if not _is_retriable(retry, answer) or tries > retry.most:
                self._give_up(job, answer, failure, outcome)
                return
            await self._pause(tries, answer, failure)

    def _give_up(
        self, job: Job, answer: Answer | None, failure: PenstockError, outcome: Outcome
    ) -> None:
        """Handles a job after its last try."""
        is_unavailable = answer is None or answer.status in BUSY
        if is_unavailable and not self._gives_up:
            raise failure if isinstance(failure, Unreachable) else Unreachable(str(failure))
        outcome.refused.append((job, answer, failure))

    async def _pause(self, tries: int, answer: Answer | None, failure: PenstockError) -> None:
        pause = self._plan.retry.pause_ms(tries, self._chance)
        retry_after = retry_after_ms(answer.headers) if answer is not None else None
        remaining_s = max(pause, retry_after or 0) / 1000
        while remaining_s > 0:
            if not self._context.is_running:
                raise Unreachable(f"The task was stopped before a request was retried: {failure}")
            await asyncio.sleep(min(remaining_s, _LOOK_S))
            remaining_s -= _LOOK_S


def _is_retriable(retry: Retry, answer: Answer | None) -> bool:
    return answer is None or answer.status in retry.statuses


def codes(text: str, separator: str = ",", span: str = "-") -> frozenset[int]:
    """Parses a list of statuses, ranges, and open ranges. Raises ValueError.

    >>> sorted(codes("500,502-504"))
    [500, 502, 503, 504]
    >>> len(codes("400-"))
    200
    """
    statuses: set[int] = set()
    for entry in text.split(separator):
        part = entry.strip()
        if not part:
            continue
        first, dash, last = (bound.strip() for bound in part.partition(span))
        start = int(first) if first or not dash else 100
        end = (int(last) if last else 599) if dash else start
        if not 100 <= start <= end <= 599:
            raise ValueError(f"'{part}' is not a range of statuses, which are from 100 to 599")
        statuses.update(range(start, end + 1))
    return frozenset(statuses)
