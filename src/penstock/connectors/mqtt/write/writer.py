"""Publishes records; `write` returns when the broker has them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.api import Batching, Failed, Records, SinkContext, SinkWriter
from penstock.connectors.mqtt.client.options import Options
from penstock.connectors.mqtt.client.packets import Item
from penstock.connectors.mqtt.write.items import Items
from penstock.connectors.mqtt.write.plan import SinkPlan
from penstock.connectors.mqtt.write.publisher import Publisher

log = logging.getLogger(__name__)


class MqttWriter(SinkWriter):
    """Publishes the records of one task through one connection."""

    batching = Batching(by_partition=False)

    def __init__(
        self, options: Options, plan: SinkPlan, context: SinkContext, client_id: str
    ) -> None:
        self._plan = plan
        self._items = Items(plan, v5=options.v5)
        # At the first refused record, as the task fails and its batch is published again.
        self._stops = not (plan.ignores_errors or context.tolerates_errors)
        self.idle_ms = max(100, min(5_000, options.keepalive_s * 500))
        self._publisher = Publisher(
            options,
            client_id,
            qos=plan.qos,
            retain=plan.retain,
            window=plan.window,
            retry_s=plan.retry_s,
            wait=context.wait,
            stops=self._stops,
        )

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        rows: list[int] = []
        items: list[Item] = []
        refused: Failed = {}
        every = self._items.of(records, refused)
        if self._stops and refused:
            first = min(refused)
            refused = {first: refused[first]}
            every = every[:first]
        for row, item in enumerate(every):
            if item is not None:
                rows.append(row)
                items.append(item)
        for index, error in self._publisher.publish(items).items():
            refused[rows[index]] = error
        if self._plan.ignores_errors:
            for row, problem in refused.items():
                log.warning(
                    "Skipping record %s of %s (connect.mqtt.error.policy): %s",
                    records.offsets[row] if records.offsets else row,
                    records.topics[row],
                    problem,
                )
        else:
            failed.update(refused)

    def idle(self) -> None:
        self._publisher.idle()

    def close(self) -> None:
        self._publisher.close()


class PreviewWriter(SinkWriter):
    """Shows the messages without connecting to a broker."""

    def __init__(self, options: Options, plan: SinkPlan, show: Callable[[str], None]) -> None:
        self._items = Items(plan, v5=options.v5)
        self._show = show

    def write(self, records: Records, failed: Failed) -> None:
        for item in self._items.of(records, failed):
            if item is not None:
                payload = item.payload.decode("utf-8", "backslashreplace")
                self._show(f"{item.topic.decode()} {payload}")
