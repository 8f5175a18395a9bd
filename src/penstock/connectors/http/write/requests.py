"""Requests for records: one each, or one per batch of records with equal URL and headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.api import DataError
from penstock.api.schema import Value
from penstock.connectors.http.client.messages import Headers, Request
from penstock.connectors.http.templates import Row, value_text
from penstock.connectors.http.write.plan import Batch, Nulls, Order, SinkPlan, key_of

_COMMAS: Final = re.compile(rb",(\s*[\]}])")


@dataclass(slots=True)
class Job:
    """A request and its rows. `texts`: each row's part of the body."""

    rows: list[int]
    request: Request
    texts: list[bytes] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class Prepared:
    """The result for a batch: lanes of ordered jobs; rows that failed, with the reason; skipped
    rows without a value."""

    lanes: list[list[Job]]
    failed: dict[int, DataError]
    left_out: list[int]


class _Lane:
    """Ordered jobs. A batch stays open until it is full or a deletion follows."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.open: dict[object, Job] = {}


def prepare(plan: SinkPlan, rows: Sequence[tuple[int, Row]]) -> Prepared:
    """Makes the requests for these records."""
    lanes: dict[object, _Lane] = {}
    failed: dict[int, DataError] = {}
    left_out: list[int] = []
    batch = plan.batch
    url_of, headers_of, group_of = _address(plan)
    for number, row in rows:
        try:
            if row.value is None:
                if plan.nulls is Nulls.FAIL:
                    raise DataError("Record value must not be null")
                if plan.nulls in (Nulls.IGNORE, Nulls.LOG):
                    left_out.append(number)
                    continue
            lane = _lane(plan, lanes, number, row)
            headers = headers_of(row)
            url = url_of(row)
            if row.value is None and plan.nulls is Nulls.DELETE:
                lane.open.clear()
                lane.jobs.append(Job([number], Request("DELETE", url, headers)))
                continue
            text = _text(plan, row)
        except DataError as error:
            failed[number] = error
            continue
        if batch is None:
            lane.jobs.append(Job([number], Request(plan.method, url, headers, text), [text]))
        else:
            group = group_of(row, url, headers)
            _add(plan, batch, lane, group, number, url, headers, text)
    if batch is not None:
        for lane in lanes.values():
            for job in lane.jobs:
                if job.texts:
                    close(batch, job)
    return Prepared([lane.jobs for lane in lanes.values()], failed, left_out)


def _address(
    plan: SinkPlan,
) -> tuple[Callable[[Row], str], Callable[[Row], Headers], Callable[[Row, str, Headers], object]]:
    """Functions for a record's URL, its headers, and the key of its batch. Constant results are
    computed once."""
    key = None if plan.batch is None else plan.batch.key
    url = plan.url.constant
    pairs = [(name.constant, value.constant) for name, value in plan.headers]
    headers: Headers | None = None
    if plan.copied_headers == frozenset() and not any(None in pair for pair in pairs):
        headers = tuple((name or "", value or "") for name, value in pairs)
    if url is not None and headers is not None and (key is None or key.constant is not None):
        return (lambda row: url), (lambda row: headers), (lambda row, url, headers: None)
    return (
        plan.url.render,
        (lambda row: _headers(plan, row)) if headers is None else (lambda row: headers),
        lambda row, url, headers: (key.render(row) if key else None, url, headers),
    )


def _lane(plan: SinkPlan, lanes: dict[object, _Lane], number: int, row: Row) -> _Lane:
    name: object = (row.topic, row.partition)
    if plan.order is Order.KEY and row.key is not None and plan.batch is None:
        name = (name, key_of(row.key))
    elif plan.order is Order.NONE and plan.batch is None:
        name = number
    lane = lanes.get(name)
    if lane is None:
        lane = lanes[name] = _Lane()
    return lane


def _add(
    plan: SinkPlan,
    batch: Batch,
    lane: _Lane,
    group: object,
    number: int,
    url: str,
    headers: Headers,
    text: bytes,
) -> None:
    job = lane.open.get(group)
    most = batch.max_bytes or plan.max_bytes
    if batch.max_bytes and plan.max_bytes:
        most = min(batch.max_bytes, plan.max_bytes)
    size = len(text) + len(batch.separator)
    if job is not None and (
        len(job.rows) >= batch.max_records or (most and job.size + size > most)
    ):
        job = None
    if job is None:
        request = Request(plan.method, url, headers)
        job = lane.open[group] = Job([], request, [], len(batch.prefix) + len(batch.suffix))
        lane.jobs.append(job)
    job.rows.append(number)
    job.texts.append(text)
    job.size += size


def close(batch: Batch, job: Job) -> None:
    """Sets the body of a job."""
    body = batch.prefix + batch.separator.join(job.texts) + batch.suffix
    if batch.tidy:
        body = _COMMAS.sub(rb"\1", body)
    request = job.request
    job.request = Request(request.method, request.url, request.headers, body)


def halves(batch: Batch, job: Job) -> Iterator[Job]:
    """The two halves of a batch."""
    middle = len(job.rows) // 2
    for part in (slice(None, middle), slice(middle, None)):
        half = Job(job.rows[part], job.request, job.texts[part])
        close(batch, half)
        yield half


def _text(plan: SinkPlan, row: Row) -> bytes:
    text = plan.body(row)
    for replace in plan.replacements:
        text = replace(text.decode("utf-8", "surrogateescape"), row).encode(
            "utf-8", "surrogateescape"
        )
    if plan.max_bytes and len(text) > plan.max_bytes:
        raise DataError(
            f"The record has {len(text):,} bytes, more than {plan.max_bytes_setting} "
            f"({plan.max_bytes:,})"
        )
    return text


def _headers(plan: SinkPlan, row: Row) -> Headers:
    copied: list[tuple[str, str]] = []
    if row.headers and plan.copied_headers != frozenset():
        copied += [
            (header.name, _header_text(header.schema, header.value))
            for header in row.headers
            if plan.copied_headers is None or header.name in plan.copied_headers
        ]
    headers = [(name.render(row), value.render(row)) for name, value in plan.headers]
    if copied:
        names = {name.lower() for name, _ in headers}
        headers = [header for header in copied if header[0].lower() not in names] + headers
    for name, value in headers:
        if any(char in name + value for char in "\r\n\0"):
            raise DataError(f"The header '{name}' contains a line break")
    return tuple(headers)


def _header_text(schema: object, value: Value) -> str:
    return value_text(schema, value) or ""  # type: ignore[arg-type] # a schema or None
