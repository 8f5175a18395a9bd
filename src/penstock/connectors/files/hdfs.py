"""The sinks to HDFS and other file systems that Hadoop supports (connectors.md §14)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from penstock.api import (
    VERSION,
    ConfigInvalid,
    Finding,
    Plugin,
    SinkContext,
    SinkWriter,
)
from penstock.api.settings import Config
from penstock.connectors.files.settings import hdfs as keys
from penstock.connectors.files.settings.extra import FILES, modules_of
from penstock.connectors.files.sinks import FileSink
from penstock.connectors.files.stores.hadoop import Hadoop
from penstock.connectors.files.stores.hdfs import HdfsStore
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable
from penstock.connectors.files.write.plan import SinkPlan

CLASS: Final = "io.confluent.connect.hdfs.HdfsSinkConnector"
CLASS_3: Final = "io.confluent.connect.hdfs3.Hdfs3SinkConnector"


class HdfsSink(FileSink):
    """Writes records into files of HDFS or another file system that Hadoop supports."""

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
        store = self.store(config, "")
        name = keys.STORE_URL.name if config[keys.STORE_URL] else keys.HDFS_URL.name
        try:
            store.check()
        except (StoreRefused, StoreUnavailable) as error:
            if "KerberosAuth" in str(error):
                name = keys.KEYTAB.name
            yield Finding(name, str(error))
        finally:
            store.close()

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        raise ConfigInvalid(
            [
                "The HDFS sink continues after the offsets in the names of its files, not at "
                "those of its consumer group. To write records again, remove or move the files, "
                f"and the folders of {keys.LOGS_DIR.name}."
            ]
        )

    def plan(self, config: Config) -> SinkPlan:
        return keys.hdfs_plan(config)

    def store(self, config: Config, connector: str) -> HdfsStore:
        options = keys.hadoop_options(config)
        return HdfsStore(lambda: Hadoop(options), options.root, keys.hdfs_folders(config))

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter | None:
        return None  # it resumes where the names of its files end


class Hdfs3Sink(HdfsSink):
    """Writes records into files of HDFS 3; the same as the sink to HDFS."""

    plugin = Plugin(
        class_name=CLASS_3,
        version=VERSION,
        config=keys.HDFS_SINK,
        task_class="io.confluent.connect.hdfs3.Hdfs3SinkTask",
        extra=FILES,
    )
