"""The settings of the sinks to HDFS, under the names of Confluent's (connectors.md §14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from penstock.api.settings import (
    HIGH,
    LOW,
    Config,
    ConfigDef,
    Group,
    Key,
    checking,
    invalid,
    one_of,
)
from penstock.connectors.files.boundaries.paths import escaped
from penstock.connectors.files.settings.names import checked_name
from penstock.connectors.files.settings.sink import (
    DIRECTORY_DELIM,
    FILE_DELIM,
    FORMAT_CLASS,
    IGNORED,
    ROTATE_ON_PARTITION_CHANGE,
    SINK_KEYS,
    SINK_RULES,
    TOPICS_DIR,
    compression,
    plan_of,
)
from penstock.connectors.files.stores.hadoop import HadoopOptions, Kerberos
from penstock.connectors.files.stores.hdfs import HdfsFolders
from penstock.connectors.files.write.plan import SinkPlan

_LONGEST: Final = 255  # bytes of a name


def _url_problem(url: str | None) -> str | None:
    if not url:
        return None
    parts = urlsplit(url)
    if not parts.scheme:
        return "It is not of the form hdfs://host:port"
    if parts.query or parts.fragment:
        return "It has more than a host and a path"
    return None


def _conf_dir_problem(folder: str | None) -> str | None:
    if folder and Path(folder).is_dir():
        names = ("core-site.xml", "hdfs-site.xml")
        if not any(Path(folder, name).is_file() for name in names):
            return "It has neither core-site.xml nor hdfs-site.xml"
    return None


# fmt: off
_HDFS: Final = Group("HDFS", importance=HIGH)
STORE_URL: Final = _HDFS.text("store.url", None,
    "The URL of the file system, with a scheme that Hadoop supports: hdfs://host:8020, "
    "hdfs://nameservice, viewfs://cluster, file:///. The path after the host is the parent folder "
    "of `topics.dir` and `logs.dir`.", check=checking("a URL", _url_problem))
HDFS_URL: Final = _HDFS.text("hdfs.url", None,
    "The former name of `store.url`.", check=checking("a URL", _url_problem))
CONF_DIR: Final = _HDFS.text("hadoop.conf.dir", "",
    "A folder with core-site.xml and hdfs-site.xml, on every machine that runs tasks.",
    check=checking("a folder", _conf_dir_problem))
LOGS_DIR: Final = _HDFS.text("logs.dir", "logs",
    "The folder of the files that record where each topic partition continues, and of write-ahead "
    "logs that Confluent's connector has left.")
JARS: Final = _HDFS.listing("penstock.hadoop.jars", (),
    "Jars with the classes of other file systems: files, folders or `folder/*.jar`, on every "
    "machine that runs tasks.", importance=LOW)
COMPRESSION: Final = compression(_HDFS, "penstock")
_SECURITY: Final = Group("Security", importance=HIGH)
KERBEROS: Final = _SECURITY.flag("hdfs.authentication.kerberos", False,
    "Whether the file system requires Kerberos.")
PRINCIPAL: Final = _SECURITY.text("connect.hdfs.principal", "",
    "The connector's principal; `_HOST` in it is the name of the machine.")
KEYTAB: Final = _SECURITY.text("connect.hdfs.keytab", "",
    "The principal's keytab, on every machine that runs tasks.")
NAMENODE: Final = _SECURITY.text("hdfs.namenode.principal", "",
    "The namenode's principal, if hdfs-site.xml does not contain it.")
_HIVE: Final = Group("Hive", importance=HIGH)
HIVE: Final = _HIVE.refused("hive.integration", False,
    "Only false: tables of a Hive metastore are not updated.",
    "penstock does not write to a Hive metastore; have Hive or Spark find new folders: "
    "MSCK REPAIR TABLE", importance=HIGH)
# fmt: on

HDFS_IGNORED: Final = (
    *IGNORED,
    "confluent.license",
    "confluent.topic.bootstrap.servers",
    "confluent.topic.replication.factor",
    "hadoop.home",
    "hive.conf.dir",
    "hive.database",
    "hive.home",
    "hive.metastore.uris",
    "hive.table.name",
    "kerberos.ticket.renew.period.ms",
)

_OWN: Final[Mapping[str, Key[object]]] = {
    key.name: key
    for key in (
        replace(FORMAT_CLASS, default="io.confluent.connect.hdfs.avro.AvroFormat"),
        replace(DIRECTORY_DELIM, check=one_of("/")),
        replace(FILE_DELIM, check=one_of("+")),
        replace(ROTATE_ON_PARTITION_CHANGE, default=False),
    )
}
"""Keys that differ from those of other sinks."""


def _url_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """A file system is set."""
    if not parsed.get(STORE_URL.name) and not parsed.get(HDFS_URL.name):
        yield STORE_URL.name, invalid(STORE_URL.name, None, "It must be the URL of the file system")


def _kerberos_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Kerberos needs a principal and a keytab."""
    if parsed.get(KERBEROS.name):
        for key in (PRINCIPAL, KEYTAB):
            if not parsed.get(key.name):
                yield key.name, invalid(key.name, "", f"{KERBEROS.name}=true needs it")


def _folders_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Folders are plain names, without the variables of Confluent's connector for topics."""
    for key in (TOPICS_DIR, LOGS_DIR):
        folder = str(parsed.get(key.name) or "")
        if "${" in folder:
            text = "It cannot contain variables: all topics share one folder, with a subfolder each"
            yield key.name, invalid(key.name, folder, text)
        elif not folder.strip("/"):
            yield key.name, invalid(key.name, folder, "It must name a folder")


HDFS_SINK: Final = ConfigDef(
    *(*_HDFS, *_SECURITY, *_HIVE),
    *(_OWN.get(key.name, key) for key in SINK_KEYS),
    rules=(*SINK_RULES, _url_rule, _kerberos_rule, _folders_rule),
)


def hadoop_options(config: Config) -> HadoopOptions:
    """Connection parameters of the file system, from a valid configuration."""
    kerberos = None
    if config[KERBEROS]:
        kerberos = Kerberos(config[PRINCIPAL], config[KEYTAB], config[NAMENODE])
    return HadoopOptions(
        url=config[STORE_URL] or config[HDFS_URL] or "",
        conf_dir=config[CONF_DIR],
        jars=tuple(config[JARS]),
        kerberos=kerberos,
    )


def hdfs_folders(config: Config) -> HdfsFolders:
    """The folders of a valid configuration."""
    root = hadoop_options(config).root
    return HdfsFolders(
        f"{root}/{config[TOPICS_DIR].strip('/')}", f"{root}/{config[LOGS_DIR].strip('/')}"
    )


def _named(text: str) -> str:
    """A folder name that cannot escape its folder; HDFS allows no colons. Raises DataError if
    none is possible."""
    return checked_name(text, escaped(text, also=":"), "a folder", _LONGEST)


def hdfs_plan(config: Config) -> SinkPlan:
    """The plan of a valid configuration."""
    return plan_of(
        config,
        compression=COMPRESSION,
        named=_named,
        ignored=HDFS_IGNORED,
        hdfs=True,
    )
