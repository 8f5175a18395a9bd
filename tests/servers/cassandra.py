"""A Cassandra for tests: a node in one process on loopback.

It starts in some fifteen seconds, so the tests of a run share one (`shared`). Acknowledged writes
are on disk, so they survive `kill`.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

from penstock.api.settings import Secret
from penstock.api.tls import TlsSettings, client_context
from penstock.connectors.cassandra.client.access import Access, Names
from penstock.host import jars
from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import wait_until

DATACENTER: Final = "datacenter1"
USER: Final = "cassandra"
"""The first user of a server with passwords, and its password."""

_START_S: Final = 150.0
_STOP_S: Final = 30.0
_LOGBACK: Final = (
    '<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
    "<pattern>%d %-5level %logger{20} %msg%n</pattern></encoder></appender>"
    '<root level="WARN"><appender-ref ref="out"/></root></configuration>'
)
_SMALL: Final = (
    "-Xms512m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxDirectMemorySize=256m",
)
_OPENS: Final = {
    "java.base": "java.io java.lang java.lang.module java.lang.reflect java.net java.nio java.util "
    "java.util.concurrent java.util.concurrent.atomic jdk.internal.loader jdk.internal.math "
    "jdk.internal.misc jdk.internal.module jdk.internal.ref jdk.internal.reflect "
    "jdk.internal.util.jar jdk.internal.vm sun.nio.ch",
    "java.management.rmi": "sun.rmi",
    "java.rmi": "sun.rmi.registry sun.rmi.server sun.rmi.transport.tcp",
    "java.sql": "java.sql",
    "jdk.management": "com.sun.management.internal",
}
_EXPORTS: Final = {
    "java.base": "java.lang.ref jdk.internal.misc jdk.internal.ref jdk.internal.util sun.nio.ch",
    "java.management.rmi": "com.sun.jmx.remote.internal.rmi",
    "java.rmi": "sun.rmi.registry sun.rmi.server sun.rmi.transport.tcp",
    "java.sql": "java.sql",
    "jdk.attach": "sun.tools.attach",
    "jdk.unsupported": "sun.misc",
}


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of a server: PKCS #12 files of its key and of the certificates it trusts, with one
    password; whether clients need a certificate."""

    key_store: Path
    trust_store: Path
    password: str
    asks_clients: bool = False


class CassandraServer:
    """A node, started with `start` or as a context manager. It keeps its port and rows across
    restarts, even after `kill`."""

    def __init__(
        self,
        *,
        passwords: bool = False,
        tls: Tls | None = None,
        options: Sequence[str] = _SMALL,
        durable: bool = True,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.port = free_port()
        self._passwords = passwords
        self._tls = tls
        self._options = options
        self._durable = durable
        self._settings = settings or {}
        self._storage_port = free_port()
        self._folder = tempfile.TemporaryDirectory(
            prefix="penstock-cassandra-", ignore_cleanup_errors=True
        )
        self._process: Process | None = None
        self._session: Any = None

    def start(self) -> None:
        """Starts the node, and returns when it answers."""
        folder = Path(self._folder.name)
        conf = folder / "conf"
        conf.mkdir(exist_ok=True)
        (conf / "cassandra.yaml").write_bytes(orjson.dumps(self._yaml(folder)))
        (conf / "logback.xml").write_text(_LOGBACK)
        classes = sorted(jars.folder("cassandra").glob("*.jar"))
        agent = next(jar for jar in classes if jar.name.startswith("jamm-"))
        command = [jars.java(), *self._options, *_modules(), f"-javaagent:{agent}"]
        command += [
            "-Djdk.attach.allowAttachSelf=true",
            f"-Dcassandra.config={(conf / 'cassandra.yaml').as_uri()}",
            f"-Dcassandra.storagedir={folder}",
            f"-Dlogback.configurationFile={conf / 'logback.xml'}",
            "-Dcassandra-foreground=yes",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.ring_delay_ms=100",
            "-Dcassandra.superuser_setup_delay_ms=0",
            "-Dcassandra.disable_tcactive_openssl=true",
            f"-Djava.io.tmpdir={folder}",
            "-cp",
            os.pathsep.join([str(conf), *map(str, classes)]),
            "org.apache.cassandra.service.CassandraDaemon",
        ]
        self._process = process = Process(command, folder / "log", name="cassandra")
        process.start()

        def answers() -> bool:
            assert process.alive, f"Cassandra has ended: {(folder / 'log').read_text()[-4000:]}"
            return self._answers()

        wait_until(answers, _START_S, "Cassandra")

    @property
    def access(self) -> Access:
        """Connection parameters of the first user."""
        context = None
        if self._tls is not None:
            context = client_context(
                TlsSettings(
                    {
                        "ssl.truststore.location": str(self._tls.trust_store),
                        "ssl.truststore.password": self._tls.password,
                        "ssl.truststore.type": "PKCS12",
                        "ssl.keystore.location": str(self._tls.key_store),
                        "ssl.keystore.password": self._tls.password,
                        "ssl.keystore.type": "PKCS12",
                    }
                )
            )
        return Access(
            points=("127.0.0.1",),
            port=self.port,
            names=Names("the address", "the user"),
            dc=DATACENTER,
            user=USER if self._passwords else "",
            password=Secret(USER),
            tls=context,
        )

    def kill(self) -> None:
        """Kills it."""
        self._disconnect()
        if self._process is not None and self._process.alive:
            self._process.kill()

    def close(self) -> None:
        """Kills it, and deletes its rows."""
        self.kill()
        self._folder.cleanup()

    @property
    def session(self) -> Any:
        """A session of the driver, as the first user."""
        if self._session is None:
            self._session = self.access.session()
        return self._session

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> list[Any]:
        """The rows that a statement returns."""
        return list(self.session.execute(statement, values, timeout=60.0))

    def _answers(self) -> bool:
        try:
            self.session.execute("SELECT release_version FROM system.local", timeout=5.0)
        except Exception:  # the driver may be in any state
            self._disconnect()
            return False
        return True

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.cluster.shutdown()

    def _yaml(self, folder: Path) -> dict[str, Any]:
        """The server's configuration; JSON is YAML."""
        sync: dict[str, Any] = {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"}
        if self._durable:
            sync = {"commitlog_sync": "group", "commitlog_sync_group_window": "5ms"}
        settings = {
            "cluster_name": "penstock",
            "num_tokens": 4,
            "allocate_tokens_for_local_replication_factor": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "data_file_directories": [str(folder / "data")],
            "commitlog_directory": str(folder / "commitlog"),
            "saved_caches_directory": str(folder / "saved"),
            "hints_directory": str(folder / "hints"),
            "cdc_raw_directory": str(folder / "cdc"),
            "endpoint_snitch": "SimpleSnitch",
            "seed_provider": [
                {
                    "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                    "parameters": [{"seeds": f"127.0.0.1:{self._storage_port}"}],
                }
            ],
            "listen_address": "127.0.0.1",
            "rpc_address": "127.0.0.1",
            "start_native_transport": True,
            "native_transport_port": self.port,
            "storage_port": self._storage_port,
            "memtable_heap_space": "64MiB",
            "memtable_offheap_space": "64MiB",
            "auto_snapshot": False,
            **sync,
        }
        if self._passwords:
            settings |= {
                "authenticator": "PasswordAuthenticator",
                "authorizer": "CassandraAuthorizer",
            }
        if self._tls is not None:
            settings["client_encryption_options"] = {
                "enabled": True,
                "optional": False,
                "keystore": str(self._tls.key_store),
                "keystore_password": self._tls.password,
                "truststore": str(self._tls.trust_store),
                "truststore_password": self._tls.password,
                "store_type": "PKCS12",
                "require_client_auth": self._tls.asks_clients,
            }
        return {**settings, **self._settings}

    def __enter__(self) -> CassandraServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _modules() -> list[str]:
    """Options that open the Java packages that the server uses."""
    return [
        f"{option}={module}/{package}=ALL-UNNAMED"
        for option, table in (("--add-opens", _OPENS), ("--add-exports", _EXPORTS))
        for module, packages in table.items()
        for package in packages.split()
    ]


@cache
def shared() -> CassandraServer:
    """The server that all tests of this process use; it ends with the process."""
    server = CassandraServer()
    server.start()
    atexit.register(server.close)
    return server
