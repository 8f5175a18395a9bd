"""The source of files on FTP, FTPS and SFTP servers (connectors.md §10)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import replace
from typing import ClassVar, Final

from penstock.api import (
    VERSION,
    Finding,
    Offsets,
    PenstockError,
    Plugin,
    Props,
    SourceConnector,
    SourceContext,
    SourceReader,
    StartupFailed,
)
from penstock.api.settings import Config
from penstock.connectors.files.monitor.known import PATH, known
from penstock.connectors.files.monitor.plan import Cleanup
from penstock.connectors.files.monitor.reader import MonitorReader
from penstock.connectors.files.settings import ftp as k
from penstock.connectors.files.settings.extra import FILES
from penstock.connectors.files.stores.folders import (
    FolderStore,
    IdentityRefused,
    LoginRefused,
)
from penstock.connectors.files.stores.ftp import FtpStore
from penstock.connectors.files.stores.sftp import SftpStore
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

_CHECK_MS: Final = 5_000


class FtpSource(SourceConnector):
    """Sends files of an FTP, FTPS or SFTP server, or what is appended to them, to topics."""

    keys: ClassVar[k.FtpKeys] = k.STREAM_REACTOR
    plugin = Plugin(
        class_name="io.lenses.streamreactor.connect.ftp.source.FtpSourceConnector",
        version=VERSION,
        config=k.STREAM_REACTOR.definition,
        task_class="io.lenses.streamreactor.connect.ftp.source.FtpSourceTask",
        also=("com.datamountaineer.streamreactor.connect.ftp.source.FtpSourceConnector",),
        extra=FILES,
    )

    def required_modules(self, config: Config) -> Collection[str]:
        return ["asyncssh"] if k.is_sftp(self.keys, config) else []

    def validate_live(self, config: Config) -> Iterable[Finding]:
        keys = self.keys
        if not config[keys.tail] and not config[keys.update]:
            yield Finding(
                keys.tail.name, "Neither files to tail nor files to send as a whole are set."
            )
            return
        try:
            store = self._store(config, at_most_ms=_CHECK_MS)
        except OSError as error:
            yield Finding(k.PRIVATE_KEY.name, f"The private key cannot be read: {error}")
            return
        with closing(store):
            yield from self._findings(config, store)

    def _findings(self, config: Config, store: FolderStore) -> Iterable[Finding]:
        keys, is_sftp = self.keys, k.is_sftp(self.keys, config)
        try:
            store.connect()
        except LoginRefused as error:
            has_key = is_sftp and config[k.PRIVATE_KEY].value
            yield Finding(k.PRIVATE_KEY.name if has_key else keys.password.name, str(error))
            return
        except IdentityRefused as error:
            yield Finding((k.KNOWN_HOSTS if is_sftp else k.TLS_VERIFY).name, str(error))
            return
        except StoreUnavailable as error:
            yield Finding(keys.address.name, str(error))
            return
        moved_to = config[k.AFTER_FOLDER] if config[k.AFTER] == Cleanup.MOVE.value else ""
        for key, watch in k.watches_of(keys, config):
            if moved_to and watch.pattern.has(moved_to):
                text = f"Files moved to {moved_to} would be read again: {key.name} matches them."
                yield Finding(k.AFTER_FOLDER.name, text)
            try:
                store.check_folder(watch.pattern.folder)
            except (StoreRefused, StoreUnavailable) as error:
                yield Finding(key.name, str(error))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        if max_tasks == 1:
            return [config.props]
        return [{**config.props, k.SHARE: f"{task}/{max_tasks}"} for task in range(max_tasks)]

    def exactly_once(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for source_offset in offsets:
            if source_offset.offset is None:
                continue  # any offset may be reset
            if set(source_offset.partition) != {PATH}:
                raise PenstockError("Partition objects should contain the key 'path' alone")
            known(source_offset.offset)
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        try:
            store = self._store(config)
        except OSError as error:
            raise StartupFailed(
                f"The private key that '{k.PRIVATE_KEY.name}' names cannot be read: {error}"
            ) from error
        _warn(self.keys, config)
        return MonitorReader(k.monitor_plan(self.keys, config), store, context)

    def _store(self, config: Config, at_most_ms: int | None = None) -> FolderStore:
        timeout_s = config[self.keys.timeout] / 1000
        if at_most_ms is not None:
            timeout_s = min(timeout_s, at_most_ms / 1000)
        if k.is_sftp(self.keys, config):
            return SftpStore(replace(k.sftp_options(self.keys, config), timeout_s=timeout_s))
        return FtpStore(replace(k.ftp_options(self.keys, config), timeout_s=timeout_s))


class EnecoFtpSource(FtpSource):
    """Sends files of an FTP, FTPS or SFTP server, or what is appended to them, to topics; with the
    settings of the connector that Stream Reactor's comes from."""

    keys = k.ENECO
    plugin = Plugin(
        # A name of its own: `FtpSourceConnector` alone means Stream Reactor's.
        class_name="io.penstock.files.EnecoFtpSourceConnector",
        version=VERSION,
        config=k.ENECO.definition,
        task_class="com.eneco.trading.kafka.connect.ftp.source.FtpSourceTask",
        also=("com.eneco.trading.kafka.connect.ftp.source.FtpSourceConnector",),
        extra=FILES,
    )


def _warn(keys: k.FtpKeys, config: Config) -> None:
    """Warns if the identity of the server is not checked."""
    protocol = config[keys.protocol].lower()
    if protocol == "sftp" and not config[k.KNOWN_HOSTS]:
        log.warning("the server's key is not checked; set %s", k.KNOWN_HOSTS.name)
    elif protocol == "ftps" and not config[k.TLS_VERIFY]:
        log.warning("the server's certificate is not checked; set %s=true", k.TLS_VERIFY.name)
