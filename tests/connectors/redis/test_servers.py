"""The Redis sinks with servers that are full, busy, killed, replicas, clusters, or use TLS."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import redis

from penstock.api import Records, TopicPartition
from penstock.connectors.redis.client.errors import RedisRefused, RedisUnavailable
from penstock.connectors.redis.client.servers import Servers
from penstock.connectors.redis.sink import (
    JcustenborderRedisSink,
    LensesRedisSink,
    RedisSink,
)
from penstock.testing.conformance import records_of
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority
from tests.servers.redis import MISSING, RedisCluster, RedisSentinel, RedisServer

from .sinks import Client, Task, findings, ours, texts, write

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def client(server: RedisServer) -> Iterator[Client]:
    with redis.Redis(port=server.port) as client:
        client.flushall()
        yield client


def test_a_full_server_is_waited_for() -> None:
    with (
        RedisServer({"maxmemory-policy": "noeviction"}) as full,
        redis.Redis(port=full.port) as other,
        Task(RedisSink, ours(full, "LIST")) as task,
    ):
        other.config_set("maxmemory", other.info("memory")["used_memory"] + 3_000_000)
        total = 10_000
        keys = [f"{number:06}" + "x" * 500 for number in range(total)]
        records = records_of([1] * total, keys=keys, topic="t")
        with pytest.raises(RedisUnavailable, match="OOM") as raised:
            task.write(records)
        assert raised.value.retriable
        written = other.llen("t")
        assert 0 < written < total
        other.config_set("maxmemory", "100mb")
        assert task.write(records) == {}
        # What was answered is not sent again; some of what follows was before it.
        assert sorted(other.lrange("t", 0, -1)) == [each.encode() for each in keys]


def test_a_busy_server_is_waited_for() -> None:
    with RedisServer({"busy-reply-threshold": "50"}) as busy:
        running = threading.Thread(
            target=lambda: busy.ask("EVAL", "while true do end", "0"), daemon=True
        )
        running.start()
        with Task(RedisSink, ours(busy)) as task:
            wait_until(lambda: _raises(lambda: task.write(texts(3))), 10, "the script")
            assert busy.ask("SCRIPT", "KILL") == "OK"
            running.join(10)
            assert task.write(texts(3)) == {}


def test_a_replica_is_left_for_the_primary(server: RedisServer, client: Client) -> None:
    with RedisServer() as other:
        other.ask("REPLICAOF", "127.0.0.1", str(server.port))
        with Task(RedisSink, ours(other)) as task:
            with pytest.raises(RedisUnavailable, match="READONLY"):
                task.write(texts(3))
            other.ask("REPLICAOF", "NO", "ONE")
            assert task.write(texts(3)) == {}
        with redis.Redis(port=other.port) as there:
            assert there.get("t:key-2") == b"value 2"


def test_replicas_are_waited_for(server: RedisServer, client: Client) -> None:
    settings = ours(server, redis_wait_replicas="1", redis_wait_timeout="500")
    with Task(RedisSink, settings) as task, RedisServer() as replica:
        with pytest.raises(RedisUnavailable, match=r"redis\.wait\.replicas"):
            task.write(texts(3))
        replica.ask("REPLICAOF", "127.0.0.1", str(server.port))
        wait_until(
            lambda: client.info("replication").get("connected_slaves") == 1, 20, "the replica"
        )
        wait_until(lambda: not _raises(lambda: task.write(texts(3))), 20, "the replica's answer")
        with redis.Redis(port=replica.port) as there:
            assert there.get("t:key-2") == b"value 2"


def _raises(act: Callable[[], object]) -> bool:
    try:
        act()
    except RedisUnavailable:
        return True
    return False


def until_taken(task: Task, records: Records) -> None:
    """Writes like the engine: retries after a retriable error."""
    for _ in range(10_000):
        try:
            assert task.write(records) == {}
            return
        except RedisUnavailable:
            continue
    raise TimeoutError


def test_a_server_that_is_killed_gets_everything() -> None:
    total, step = 100_000, 2_000
    with (
        RedisServer(appends=True) as server,
        Task(RedisSink, ours(server)) as strings,
        Task(RedisSink, ours(server, "LIST", redis_keyspace="list")) as lists,
    ):

        def restart() -> None:
            server.kill()
            server.start()

        restarts: list[threading.Thread] = []
        for start in range(0, total, step):
            if start % 40_000 == 20_000:
                restarts.append(threading.Thread(target=restart))
                restarts[-1].start()
            records = texts(step, first=start)
            until_taken(strings, records)
            until_taken(lists, records)
        for each in restarts:
            each.join()
        with redis.Redis(port=server.port) as client:
            assert client.dbsize() == total + 1
            assert client.get(f"t:key-{total - 1}") == f"value {total - 1}".encode()
            listed = client.lrange("list", 0, -1)
            assert len(set(listed)) == total
            # Pipelines whose replies were lost may occur twice.
            assert len(listed) - total <= len(restarts) * step


def test_a_slow_answer_is_waited_for(server: RedisServer, client: Client) -> None:
    with Proxy(server.port) as proxy:
        settings = {
            **ours(server),
            "redis.uri": f"redis://127.0.0.1:{proxy.port}",
            "redis.timeout": "1",
        }
        with Task(RedisSink, settings) as task:
            assert task.write(texts(10)) == {}
            proxy.hang()
            with pytest.raises(RedisUnavailable, match=r"imeout|timed out"):
                task.write(texts(10, first=10))
            proxy.restore()
            assert task.write(texts(10, first=10)) == {}
            assert client.get("t:key-19") == b"value 19"
        patient = {**settings, "redis.timeout": "30"}
        with Task(RedisSink, patient) as task:
            proxy.hang()
            done = threading.Thread(target=lambda: task.write(texts(5, first=50)))
            done.start()
            wait_until(lambda: proxy.connections > 0, 10, "a connection")
            done.join(0.5)
            assert done.is_alive()
            proxy.restore()
            done.join(20)
            assert client.get("t:key-54") == b"value 54"


def test_a_cluster_gets_every_record_at_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        RedisCluster() as cluster,
        redis.RedisCluster("127.0.0.1", cluster.nodes[0].port) as client,
    ):
        first = cluster.nodes[0].address
        settings = {"redis.uri": f"redis://{first}", "redis.cluster": "true"}
        rows = records_of(
            [{"v": number} for number in range(3_000)],
            keys=[f"k{number}" for number in range(3_000)],
            topic="t",
        )
        with Task(RedisSink, {**settings, "redis.type": "HASH"}) as task:
            task.writer.assigned({TopicPartition("t", 0): 0})
            assert task.write(rows) == {}
            assert task.writer.pre_commit({TopicPartition("t", 0): 3_000})
            assert client.get("com.redis.kafka.connect.sink.offset.t.0") is not None
            assert all(int(node.ask("DBSIZE")) > 500 for node in cluster.nodes), [
                node.ask("DBSIZE") for node in cluster.nodes
            ]
            stored = 3_000 + 2  # and the offset with its lineage
            slot, target = _move_slot(cluster, client)
            for number in range(3_000):
                rows.values.values[number] = {"v": -number}
            assert task.write(rows) == {}  # the key is asked for elsewhere
            assert sum(int(node.ask("DBSIZE")) for node in cluster.nodes) == stored
            old = task.writer._servers._ranges()
            for node in cluster.nodes:
                assert node.ask("CLUSTER", "SETSLOT", slot, "NODE", target) == "OK"
            with monkeypatch.context() as stale:
                stale.setattr(Servers, "_slots", lambda servers, address: old)
                assert task.write(rows) == {}  # redirected, whatever nodes report for the slot
            assert task.write(rows) == {}  # the slot has moved
            assert sum(int(node.ask("DBSIZE")) for node in cluster.nodes) == stored
        hosts = ",".join(cluster.addresses)
        plain = {"redis.hosts": hosts, "redis.client.mode": "Cluster"}
        assert write(JcustenborderRedisSink, plain, texts(500)) == {}
        assert client.get("key-499") == b"value 499"
        alone = {"redis.uri": f"redis://{first}", "redis.type": "STRING"}
        assert "redis.cluster=true" in findings(RedisSink, alone)["redis.uri"]
        with pytest.raises(RedisRefused, match=r"redis\.cluster=true"):
            write(RedisSink, alone, texts(50))


def _move_slot(cluster: RedisCluster, client: redis.RedisCluster) -> tuple[str, str]:
    """Starts moving a slot with one key to another node, the key first: the old node redirects
    requests for it. Returns the slot, and the new node's id."""
    slots = [str(client.keyslot(f"t:k{number}")) for number in range(3_000)]
    key, slot = next((f"t:k{n}", each) for n, each in enumerate(slots) if slots.count(each) == 1)
    ids = [node.ask("CLUSTER", "MYID").split("\r\n")[-1] for node in cluster.nodes]
    source = int(slot) // (16_384 // 3 + 1)
    target = (source + 1) % 3
    cluster.nodes[target].ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    cluster.nodes[source].ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    port = str(cluster.nodes[target].port)
    moved = cluster.nodes[source].ask("MIGRATE", "127.0.0.1", port, key, "0", "5000")
    assert moved == "OK", moved
    return slot, ids[target]


def test_sentinels_tell_the_primary() -> None:
    with RedisServer() as first, RedisServer() as second:
        second.ask("REPLICAOF", "127.0.0.1", str(first.port))
        with RedisSentinel({"orders": first}) as sentinel:
            uri = f"redis-sentinel://{sentinel.address}#orders"
            settings = {"redis.uri": uri, "redis.type": "STRING", "redis.timeout": "2"}
            with Task(RedisSink, settings) as task:
                assert task.write(texts(10)) == {}
                with redis.Redis(port=sentinel.port, decode_responses=True) as asked:
                    wait_until(lambda: bool(asked.sentinel_slaves("orders")), 30, "the replica")
                first.kill()
                wait_until(
                    lambda: not _raises(lambda: task.write(texts(10, first=10))), 60, "a failover"
                )
            with redis.Redis(port=second.port) as client:
                assert client.get("t:key-19") == b"value 19"
            config = RedisSink.plugin.config.parse({**settings, "redis.uri": uri + "x"})
            reported = list(RedisSink().validate_live(config))
            assert [each.setting for each in reported] == ["redis.uri"]
            assert "ordersx" in str(reported[0].error)


def test_tls_and_users() -> None:
    authority = Authority()
    with RedisServer(authority=authority, password="secret") as server:
        server.ask("ACL", "SETUSER", "writer", "on", ">pass", "~t:*", "+@all", "-flushall")
        server.ask("ACL", "SETUSER", "reader", "on", ">pass", "~*", "+@read", "+ping", "+command")
        trust = str(server.folder / "trust.pem")
        base = {
            "redis.uri": f"rediss://{server.address}",
            "redis.type": "STRING",
            "redis.cacert": trust,
            "redis.password": "secret",
        }
        assert findings(RedisSink, base) == {}
        assert write(RedisSink, base, texts(3)) == {}
        reported = findings(RedisSink, {**base, "redis.password": "wrong"})
        assert list(reported) == ["redis.password"]
        assert "WRONGPASS" in reported["redis.password"] or "invalid" in reported["redis.password"]
        without = {name: each for name, each in base.items() if name != "redis.password"}
        assert list(findings(RedisSink, without)) == ["redis.password"]
        strange = {name: each for name, each in base.items() if name != "redis.cacert"}
        assert "certificate" in findings(RedisSink, strange)["redis.uri"]
        assert findings(RedisSink, {**strange, "redis.insecure": "true"}) == {}
        missing = findings(RedisSink, {**base, "redis.cacert": trust + "x"})
        assert list(missing) == ["redis.cacert"]
        plain = findings(RedisSink, {**base, "redis.uri": f"redis://{server.address}"})
        assert list(plain) == ["redis.uri"]
        user = {**base, "redis.username": "writer", "redis.password": "pass"}
        records = records_of(["v", "w"], keys=["a", "b"], topic="t")
        assert write(RedisSink, user, records) == {}
        elsewhere = records_of(["v"], keys=["a"], topic="u")
        assert "NOPERM" in str(write(RedisSink, user, elsewhere)[0])
        inside = {**base, "redis.uri": f"rediss://reader:pass@{server.address}"}
        inside.pop("redis.password")
        with Task(RedisSink, inside) as task:
            with pytest.raises(RedisRefused, match="NOPERM"):
                task.write(texts(1))
            with pytest.raises(RedisRefused, match="NOPERM"):
                task.writer.flush()
            with pytest.raises(RedisRefused, match="NOPERM"):
                task.writer.pre_commit({})
        jcustenborder = {
            "redis.hosts": server.address,
            "redis.ssl.enabled": "true",
            "redis.ssl.truststore.path": trust,
            "redis.password": "secret",
        }
        assert findings(JcustenborderRedisSink, jcustenborder) == {}
        assert write(JcustenborderRedisSink, jcustenborder, texts(3)) == {}
        by_kcql = {
            "connect.redis.host": "localhost",
            "connect.redis.port": str(server.port),
            "connect.redis.kcql": "SELECT * FROM t PK id",
            "connect.redis.ssl.enabled": "true",
            "connect.redis.password": "secret",
            "ssl.truststore.location": trust,
            "ssl.truststore.type": "PEM",
        }
        assert findings(LensesRedisSink, by_kcql) == {}
        assert write(LensesRedisSink, by_kcql, records_of([{"id": 1}])) == {}


def test_validation_tells_what_is_missing(server: RedisServer, client: Client) -> None:
    assert findings(RedisSink, ours(server)) == {}
    assert "JSON.SET" in findings(RedisSink, ours(server, "JSON"))["redis.type"]
    assert "TS.ADD" in findings(RedisSink, ours(server, "TIMESERIES"))["redis.type"]
    proxy = Proxy(server.port)  # nobody listens
    away = {"redis.uri": f"redis://127.0.0.1:{proxy.port}"}
    assert list(findings(RedisSink, away)) == ["redis.uri"]
    proxy.close()
    cluster = {**ours(server), "redis.cluster": "true"}
    assert "cluster support disabled" in findings(RedisSink, cluster)["redis.uri"]
    no_database = {"redis.hosts": server.address, "redis.database": "99"}
    assert list(findings(JcustenborderRedisSink, no_database)) == ["redis.hosts"]
    with pytest.raises(RedisRefused, match=r"redis\.type"):
        write(RedisSink, ours(server, "JSON"), texts(1))


def test_a_socket_of_the_machine(server: RedisServer, client: Client) -> None:
    for uri in (f"redis-socket://{server.socket}?database=2", f"unix://{server.socket}?db=2"):
        assert write(RedisSink, {"redis.uri": uri, "redis.type": "STRING"}, texts(3)) == {}
    with redis.Redis(port=server.port, db=2) as other:
        assert other.get("t:key-1") == b"value 1"
