"""Real Redis servers for tests on loopback: alone, as a cluster, or with a sentinel.

A machine without `redis-server` skips such tests, see `MISSING`.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority

HOST: Final = "127.0.0.1"
MISSING: Final = (
    None
    if shutil.which("redis-server")
    else "redis-server is not installed; install it with: apt-get install redis-server"
)
"""Why no server can be started here; None if one can."""

_START_S: Final = 30.0
_STOP_S: Final = 15.0
_PIECE: Final = 1 << 16


class RedisServer:
    """A server, started with `start` or as a context manager. It forgets everything when it ends,
    unless `appends`: then every write is on disk before the response. It keeps its port across
    restarts.

    `options` are those of its configuration file. With an `authority`, it speaks only TLS. It loads
    the modules in the folder `modules`, which load the libraries there.
    """

    extra: tuple[str, ...] = ()

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        *,
        appends: bool = False,
        authority: Authority | None = None,
        password: str = "",
        modules: Path | None = None,
    ) -> None:
        self.port = free_port()
        self.address = f"{HOST}:{self.port}"
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-redis-")
        self.folder = Path(self._folder.name)
        self.socket = self.folder / "redis.sock"
        self._password = password
        self._tls = authority is not None
        self._modules = modules
        self._process: Process | None = None
        self._options = {
            "bind": HOST,
            "port": str(self.port),
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "save": '""',
            "appendonly": "yes" if appends else "no",
            "appendfsync": "always",
            **({"requirepass": password} if password else {}),
            **(self._with_tls(authority) if authority is not None else {}),
            **(options or {}),
        }

    def _with_tls(self, authority: Authority) -> dict[str, str]:
        issued = authority.issue("redis", "localhost", HOST)
        texts = {"cert.pem": issued.chain_pem(), "key.pem": issued.key_pem()}
        for name, text in {**texts, "trust.pem": authority.pem()}.items():
            (self.folder / name).write_text(text)
        return {
            "port": "0",
            "tls-port": str(self.port),
            "tls-cert-file": str(self.folder / "cert.pem"),
            "tls-key-file": str(self.folder / "key.pem"),
            "tls-ca-cert-file": str(self.folder / "trust.pem"),
            "tls-auth-clients": "no",
        }

    def start(self) -> None:
        """Starts the server, and returns when it answers."""
        file = self.folder / "redis.conf"
        if not file.exists():
            lines = [f"{name} {text}" for name, text in self._options.items()]
            lines += [f'loadmodule "{module}"' for module in self._module_files()]
            file.write_text("\n".join([*lines, ""]))
        log = self.folder / "log"
        command = ["redis-server", str(file), *self.extra]
        if self._modules is not None:
            command = ["env", f"LD_LIBRARY_PATH={self._modules}", *command]
        self._process = process = Process(command, log, name="redis-server")
        process.start()

        def answers() -> bool:
            process.check()
            with contextlib.suppress(OSError):
                return self.ask("PING") == "PONG"
            return False

        wait_until(answers, _START_S, "redis-server")

    def _module_files(self) -> list[Path]:
        return sorted(self._modules.glob("*.so")) if self._modules is not None else []

    def ask(self, *words: str) -> str:
        """The response to a command, if it is short; errors are returned, too."""
        plain = socket.create_connection((HOST, self.port), _START_S)
        with self._encrypted(plain) as connected:
            if self._password:
                _response(connected, "AUTH", self._password)
            return _response(connected, *words)

    def _encrypted(self, plain: socket.socket) -> socket.socket:
        if not self._tls:
            return plain
        context = ssl.create_default_context(cafile=str(self.folder / "trust.pem"))
        return context.wrap_socket(plain, server_hostname="localhost")

    def kill(self) -> None:
        """Kills it."""
        if self._process is not None and self._process.alive:
            self._process.kill()

    def close(self) -> None:
        """Stops it. Safe to call twice."""
        if self._process is not None and self._process.alive:
            self._process.stop(_STOP_S)
        self._folder.cleanup()

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _response(connected: socket.socket, *words: str) -> str:
    parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
    connected.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
    answer, size = b"", 0
    while not answer.endswith(b"\r\n") or len(answer) < size:
        data = connected.recv(_PIECE)
        if not data:
            raise ConnectionError("the server closed the connection")
        answer += data
        if answer[:1] == b"$":
            first = answer.partition(b"\r\n")[0]
            size = len(first) + 4 + max(int(first[1:] or 0), -2)
    return answer.decode().strip().lstrip("+:")


class RedisCluster:
    """A cluster whose servers divide the slots. As a context manager it is started and stopped."""

    def __init__(self, nodes: int = 3) -> None:
        self.nodes = [
            RedisServer({"cluster-enabled": "yes", "cluster-node-timeout": "3000"})
            for _ in range(nodes)
        ]
        for node in self.nodes:
            # By default its port plus 10,000, which may exceed 65,535.
            node._options["cluster-port"] = str(free_port())

    @property
    def addresses(self) -> list[str]:
        return [node.address for node in self.nodes]

    def start(self) -> None:
        """Starts the nodes, and returns when each knows that all slots are covered."""
        for node in self.nodes:
            node.start()
        share = 16_384 // len(self.nodes) + 1
        for number, node in enumerate(self.nodes):
            last = min((number + 1) * share, 16_384) - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(number * share), str(last))
            # Nodes with equal epochs would take new ones, and could then claim a moved slot.
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        first = self.nodes[0]
        for node in self.nodes[1:]:
            bus = node._options["cluster-port"]
            first.ask("CLUSTER", "MEET", HOST, str(node.port), bus)
        wait_until(
            lambda: all(_agrees(node, len(self.nodes)) for node in self.nodes),
            _START_S,
            "the nodes of the cluster to know each other",
        )

    def close(self) -> None:
        """Stops the nodes."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> RedisCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _agrees(node: RedisServer, nodes: int) -> bool:
    info = node.ask("CLUSTER", "INFO")
    return "cluster_state:ok" in info and f"cluster_known_nodes:{nodes}" in info


class RedisSentinel(RedisServer):
    """A sentinel that watches primaries, by name."""

    extra = ("--sentinel",)

    def __init__(self, primaries: Mapping[str, RedisServer], quorum: int = 1) -> None:
        super().__init__()
        self._options = {"bind": HOST, "port": str(self.port), "dir": str(self.folder)}
        lines: Sequence[str] = [
            line
            for name, server in primaries.items()
            for line in (
                f"sentinel monitor {name} {HOST} {server.port} {quorum}",
                f"sentinel down-after-milliseconds {name} 500",
                f"sentinel failover-timeout {name} 2000",
            )
        ]
        options = [f"{name} {text}" for name, text in self._options.items()]
        (self.folder / "redis.conf").write_text("\n".join([*options, *lines, ""]))
