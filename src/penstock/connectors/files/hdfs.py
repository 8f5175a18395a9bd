"""The sinks to HDFS, and to whatever else Hadoop knows as a file system (connectors.md §14)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.api import (
    VERSION,
    ConfigInvalid,
    Finding,
    Plugin,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import hdfs as keys
from penstock.connectors.files.settings.extra import FILES, modules_of
from penstock.connectors.files.stores.hadoop import Hadoop
from penstock.connectors.files.stores.hdfs import HdfsStore
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable
from penstock.connectors.files.write.writer import FileWriter

CLASS: Final = "io.confluent.connect.hdfs.HdfsSinkConnector"
CLASS_3: Final = "io.confluent.connect.hdfs3.Hdfs3SinkConnector"


class HdfsSink(SinkConnector):
    """Writes records into files of HDFS, or of another file system that Hadoop knows."""

    plugin = Plugin(
        class_name=CLASS,
        version=VERSION,
        config=keys.HDFS_SINK,
        task_class="io.confluent.connect.hdfs.HdfsSinkTask",
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["jpype", *modules_of(config)]

    def validate_live(self, config: Config) -> Iterable[Finding]:
        store = _store(config)
        name = keys.STORE_URL.name if config[keys.STORE_URL] else keys.HDFS_URL.name
        try:
            store.check()
        except (StoreRefused, StoreUnavailable) as error:
            if "KerberosAuth" in str(error):
                name = keys.KEYTAB.name
            yield Finding(name, str(error))
        finally:
            store.close()

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        raise ConfigInvalid(
            [
                "The HDFS sink goes on where the names of its files say, and not at the offsets of "
                f"its consumer group. Remove or move the files, and the folders of "
                f"{keys.LOGS_DIR.name}, to have records written again."
            ]
        )

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return FileWriter(
            keys.hdfs_plan(config), _store(config), context, lambda: time.time_ns() // 1_000_000
        )


class Hdfs3Sink(HdfsSink):
    """Writes records into files of HDFS 3; the same as the sink to HDFS."""

    plugin = Plugin(
        class_name=CLASS_3,
        version=VERSION,
        config=keys.HDFS_SINK,
        task_class="io.confluent.connect.hdfs3.Hdfs3SinkTask",
        extra=FILES,
    )


def _store(config: Config) -> HdfsStore:
    options = keys.hadoop_options(config)
    return HdfsStore(lambda: Hadoop(options), options.root, keys.hdfs_folders(config))
