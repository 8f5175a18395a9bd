"""Filter: leaves records out (kafka-connect.md §10.10)."""

from __future__ import annotations

from penstock.api.transform import Transform
from penstock.config.define import ConfigDef
from penstock.data.records import Failed, Records
from penstock.transform.settings import plugin


class Filter(Transform):
    """Drops every record it is applied to; a predicate says which those are."""

    plugin = plugin("Filter", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        return records.only(())
