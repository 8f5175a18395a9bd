"""Filter: drops records (kafka-connect.md §10.10)."""

from __future__ import annotations

from penstock.api.transform import Transform
from penstock.config.define import ConfigDef
from penstock.data.records import Failed, Records
from penstock.transform.settings import plugin


class Filter(Transform):
    """Drops every record that it is applied to; use it with a predicate."""

    plugin = plugin("Filter", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        return records.only(())
