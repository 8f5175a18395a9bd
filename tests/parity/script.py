"""The requests to both runtimes, in order, as a table.

`@worker@` in a path or a body stands for a name that differs between the two (topics, groups),
`@dir@` for the folder of the test; both are restored before answers are compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
JSON: Final = "application/json"

Body = str | bytes | dict[str, Any] | list[Any] | None


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's answer, with placeholders for everything that must differ."""

    status: int
    content_type: str | None
    location: str | None
    allow: tuple[str, ...] | None
    body: str

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. With `until` it is repeated until that holds, and then compared."""

    method: str
    path: str
    body: Body = None
    content_type: str | None = JSON
    accept: str | None = None
    until: Callable[[Reply], bool] | None = None

    @property
    def bytes(self) -> bytes | None:
        """The body as sent, still with placeholders."""
        match self.body:
            case None | bytes():
                return self.body
            case str():
                return self.body.encode()
            case _:
                return json.dumps(self.body, ensure_ascii=False).encode()

    def __str__(self) -> str:
        shown = (self.bytes or b"").decode(errors="replace")
        kind = "" if self.content_type == JSON or self.body is None else f" ({self.content_type})"
        accept = f" accept {self.accept}" if self.accept else ""
        wait = " later" if self.until else ""
        return f"{self.method} {self.path}{accept}{wait} {shown}{kind}".strip()


def source(**more: object) -> dict[str, object]:
    """A source's configuration; its file stays absent unless another one is given."""
    base = {"connector.class": SOURCE, "file": "@dir@/absent", "topic": "@worker@-t"}
    return base | {name.replace("__", "."): value for name, value in more.items()}


def sink(**more: object) -> dict[str, object]:
    """A sink's configuration."""
    base = {"connector.class": SINK, "file": "@dir@/@worker@-out", "topics": "@worker@-t"}
    return base | {name.replace("__", "."): value for name, value in more.items()}


def create(name: object, config: object = None, **more: object) -> Ask:
    """A POST of a connector."""
    return Ask("POST", "/connectors", {"name": name, "config": config or source(), **more})


def put(name: str, config: Body) -> Ask:
    """A PUT of a connector's configuration, `name` as it stands in the path."""
    return Ask("PUT", f"/connectors/{name}/config", config)


def raw(body: str | bytes, content_type: str | None = JSON) -> Ask:
    """A POST of a connector, byte for byte."""
    return Ask("POST", "/connectors", body, content_type)


def get(path: str) -> Ask:
    return Ask("GET", path)


def delete(name: str) -> Ask:
    return Ask("DELETE", f"/connectors/{name}")


def status(name: str, connector: str, *tasks: str) -> Ask:
    """The status of a connector, once it and its tasks are in these states."""

    def reached(reply: Reply) -> bool:
        if reply.status != 200:
            return False
        found = reply.json()
        states = tuple(task["state"] for task in found["tasks"])
        return (found["connector"]["state"], states) == (connector, tasks)

    return Ask("GET", f"/connectors/{name}/status", until=reached)


def gone(name: str) -> Ask:
    """The status of a connector, once it is forgotten."""
    return Ask("GET", f"/connectors/{name}/status", until=lambda reply: reply.status == 404)


def validate(plugin: str, config: Body) -> Ask:
    return Ask("PUT", f"/connector-plugins/{plugin}/config/validate", config)


SERVER: Final = [
    get("/"),
    get("/?x=1"),
    get("/health"),
    get("/connectors"),
    get("/connectors/"),
    get("/connectors?expand=status"),
    get("/connector-plugins"),
    get("/connector-plugins/"),
    get("/connector-plugins?connectorsOnly=true"),
    get("/nope"),
    get("/nope/"),
    get("/connectors/none/nope"),
    get("//connectors"),
    get("/connectors//config"),
    get("/Connectors"),
    Ask("HEAD", "/connectors"),
    Ask("HEAD", "/"),
    Ask("HEAD", "/connectors/none"),
    Ask("OPTIONS", "/"),
    Ask("OPTIONS", "/connectors"),
    Ask("OPTIONS", "/connectors/none"),
    Ask("OPTIONS", "/connectors/none/status"),
    Ask("OPTIONS", "/connectors/none/pause"),
    Ask("OPTIONS", "/connectors/none/restart"),
    Ask("OPTIONS", "/connector-plugins"),
    Ask("OPTIONS", "/health"),
    Ask("OPTIONS", "/nope"),
    Ask("POST", "/", "{}"),
    Ask("PUT", "/connectors", "{}"),
    Ask("DELETE", "/connectors"),
    Ask("PATCH", "/connectors", "{}"),
    Ask("POST", "/connector-plugins", "{}"),
    Ask("POST", "/connectors/none", "{}"),
    Ask("GET", "/connectors/none/pause"),
    Ask("GET", "/connectors/none/restart"),
    Ask("GET", "/connector-plugins/FileStreamSink/config/validate"),
    Ask("GET", "/connectors", accept="text/html"),
    Ask("GET", "/connectors", accept="text/html, */*;q=0.1"),
    Ask("GET", "/connectors", accept="application/*"),
    Ask("GET", "/connectors/none/status", accept="text/plain"),
    Ask("GET", "/connectors", "x", "text/plain"),
    Ask("TRACE", "/connectors"),
    Ask("FOO", "/connectors"),
]
"""Paths, methods and media types, on a worker without connectors."""

UNKNOWN: Final = [
    get("/connectors/none"),
    get("/connectors/none/"),
    get("/connectors/none/config"),
    get("/connectors/none/status"),
    get("/connectors/none/tasks"),
    get("/connectors/none/topics"),
    get("/connectors/none/tasks/0/status"),
    get("/connectors/none/tasks/x/status"),
    get("/connectors/none/tasks/-1/status"),
    get("/connectors/none/tasks/99999999999/status"),
    get("/connectors/n%20o%2Fn%C3%A9/config"),
    get("/connectors/n%20o%2Fn%C3%A9/topics"),
    get("/connectors/a+b/status"),
    get("/connectors/%zz/status"),
    get("/connectors/none;v=1/status"),
    delete("none"),
    Ask("PUT", "/connectors/none/pause"),
    Ask("PUT", "/connectors/none/resume"),
    Ask("PUT", "/connectors/none/stop"),
    Ask("POST", "/connectors/none/restart"),
    Ask("POST", "/connectors/none/tasks/0/restart"),
    Ask("POST", "/connectors/none/tasks/x/restart"),
    Ask("PUT", "/connectors/none/pause", "{}", "text/plain"),
    Ask("POST", "/connectors/none/tasks", "[]"),
]
"""All requests about a connector, for one that is missing."""

REFUSED: Final = [
    raw(""),
    raw("null"),
    raw("[]"),
    raw("5"),
    raw('"x"'),
    raw("{"),
    raw("{} x"),
    raw("{'name':'x'}"),
    raw("{}"),
    raw('{"name":"x"}'),
    raw('{"name":"x","config":null}'),
    raw('{"name":"x","config":[]}'),
    raw('{"name":"x","config":"y"}'),
    raw('{"name":"x","config":{}}'),
    raw('{"config":{}}'),
    raw('{"name":["x"],"config":{}}'),
    raw('{"name":{},"config":{}}'),
    raw('{"name":"x","config":{},"more":1}'),
    raw('{"name":"x","config":{"a":{}}}'),
    raw('{"name":"x","config":{"a":[1]}}'),
    raw('{"name":"x","config":{"a":NaN}}'),
    raw(b'{"name":"\xff","config":{}}'),
    raw('{"name":"x","config":{}}', None),
    raw('{"name":"x","config":{}}', "text/plain"),
    raw('{"name":"x","config":{}}', "application/x-www-form-urlencoded"),
    raw('{"name":"x","config":{}}', "application/vnd.kafka+json"),
    raw('{"name":"x","config":{}}', "nonsense"),
    Ask("POST", "/connectors", None, None),
    create("x", {"file": "f", "topic": "t"}),
    create("x", {"connector.class": "", "topic": "t"}),
    create("x", {"connector.class": None, "topic": "t"}),
    create("x", {"connector.class": "nope.Nope", "topic": "t"}),
    create("x", {"connector.class": "org.apache.kafka.connect.json.JsonConverter"}),
    create("x", {"connector.class": SOURCE}),
    create("x", {"connector.class": SINK}),
    create("", source()),
    create("   ", source()),
    create(None, source()),
    create("a\u0007b\u001fc", source()),
    create("x", source(name="y")),
    create("x", source(name="")),
    create("x", source(name=None, tasks__max=0)),
    create("x", source(tasks__max=0)),
    create("x", source(tasks__max="abc", batch__size="-1")),
    create("x", source(tasks__max=None)),
    create("x", source(tasks__max=1.5)),
    create("x", source(tasks__max=3000000000)),
    create("x", source(topic="")),
    create("x", source(topic=None)),
    create("x", source(key__converter="nope.Nope")),
    create(
        "x",
        source(
            value__converter="org.apache.kafka.connect.json.JsonConverter",
            value__converter__schemas__enable="maybe",
        ),
    ),
    create("x", source(header__converter="nope.Nope")),
    create("x", source(errors__tolerance="some", errors__log__enable="maybe")),
    create("x", source(errors__retry__timeout="x", config__action__reload="y")),
    create("x", source(exactly__once__support="required")),
    create("x", source(exactly__once__support="nope", transaction__boundary="nope")),
    create("x", source(transforms="a")),
    create("x", source(transforms="a,a")),
    create("x", source(transforms="a", transforms__a__type="nope.Nope")),
    create("x", source(predicates="p")),
    create("x", source(topic__creation__default__partitions="1", tasks__max=0)),
    create(
        "x",
        source(
            topic__creation__default__partitions="0",
            topic__creation__default__replication__factor="0",
            tasks__max=0,
        ),
    ),
    create("x", source(topic__creation__groups="g", tasks__max=0)),
    create("x", sink(topics__regex="t.*")),
    create("x", sink(topics="")),
    create("x", sink(topics=" , ")),
    create("x", {"connector.class": SINK, "topics.regex": "("}),
    create("x", {"connector.class": SINK, "topics.regex": "["}),
    create("x", {"connector.class": SINK, "topics.regex": "*a"}),
    create("x", sink(topics="@worker@-dlq", errors__deadletterqueue__topic__name="@worker@-dlq")),
    create("x", sink(errors__deadletterqueue__topic__replication__factor="many")),
    create("x", sink(consumer__override__group__id="@worker@")),
    create("x", source(tasks__max="0"), initial_state="NOPE"),
    create("x", source(tasks__max="0"), initial_state=5),
    create("x", source(tasks__max="0"), initial_state=""),
    create("x", source(tasks__max="0"), initial_state="paused"),
    put("x", None),
    put("x", ""),
    put("x", "[]"),
    put("x", "null"),
    put("x", "{"),
    put("x", "{}"),
    put("x", '{"a":{"b":1}}'),
    put("x", source(name="y")),
    put("x", source(tasks__max="abc")),
    put("%20", source()),
    put("a%07b", source()),
    Ask("PUT", "/connectors/x/config", "{}", "text/plain"),
    Ask("PUT", "/connectors/x/config", "{}", None),
    delete("x"),
    gone("x"),
    get("/connectors"),
]
"""Requests that are refused, except one: a null topic fails only when it is used."""

CREATED: Final = [
    create("one", source()),
    create("one", source()),
    create("one", {"connector.class": "nope.Nope"}),
    status("one", "RUNNING", "RUNNING"),
    get("/connectors/one"),
    get("/connectors/one/"),
    get("/connectors/one/config"),
    get("/connectors/one/tasks"),
    get("/connectors/one/tasks/0/status"),
    get("/connectors/one/tasks/1/status"),
    get("/connectors/one/topics"),
    get("/connectors"),
    get("/connectors?expand=status"),
    get("/connectors?expand=info"),
    get("/connectors?expand=info&expand=status"),
    get("/connectors?expand=status&expand=info"),
    get("/connectors?expand=nope"),
    get("/connectors?expand="),
    get("/connectors?expand=status,info"),
    get("/connectors?expand=STATUS"),
    Ask("HEAD", "/connectors/one"),
    Ask("PUT", "/connectors/one/config", source(batch__size=7, extra=True, pi=3.140, big=10**20)),
    status("one", "RUNNING", "RUNNING"),
    get("/connectors/one/config"),
    put(
        "one",
        '{"connector.class":"FileStreamSource","topic":"@worker@-t","file":"@dir@/absent",'
        '"e":1e3,"f":1.50,"g":-0,"h":12345678901234567890123,"i":0.1e-9}',
    ),
    status("one", "RUNNING", "RUNNING"),
    get("/connectors/one"),
    put(
        "one",
        '{"connector.class":"FileStreamSource","topic":"b","file":"@dir@/absent",'
        '"topic":"@worker@-t"}',
    ),
    get("/connectors/one"),
    put("one", source(x=None)),
    Ask("PUT", "/connectors/one/pause"),
    status("one", "PAUSED", "PAUSED"),
    Ask("PUT", "/connectors/one/pause"),
    Ask("PUT", "/connectors/one/resume"),
    status("one", "RUNNING", "RUNNING"),
    Ask("PUT", "/connectors/one/stop"),
    status("one", "STOPPED"),
    get("/connectors/one"),
    get("/connectors/one/tasks"),
    Ask("PUT", "/connectors/one/resume"),
    status("one", "RUNNING", "RUNNING"),
    Ask("POST", "/connectors/one/restart"),
    status("one", "RUNNING", "RUNNING"),
    Ask("POST", "/connectors/one/tasks/0/restart"),
    status("one", "RUNNING", "RUNNING"),
    Ask("POST", "/connectors/one/tasks/7/restart"),
    Ask("POST", "/connectors/one/tasks", "[]"),
    create("two", source(name="two")),
    status("two", "RUNNING", "RUNNING"),
    create("paused", source(), initial_state="paused"),
    status("paused", "PAUSED"),
    get("/connectors/paused"),
    create("stopped", source(), initial_state="STOPPED"),
    status("stopped", "STOPPED"),
    get("/connectors/stopped"),
    create("running", sink(), initial_state=None),
    status("running", "RUNNING", "RUNNING"),
    get("/connectors/running/tasks"),
    get("/connectors/running"),
    create("Running", sink(topics__regex="@worker@-z.*", topics=""), initial_state="running"),
    status("Running", "RUNNING", "RUNNING"),
    get("/connectors/Running/tasks"),
    create("  trimmed ", source(), initial_state="STOPPED"),
    get("/connectors/trimmed"),
    create("with space", source(), initial_state="STOPPED"),
    get("/connectors/with%20space"),
    get("/connectors/with+space/config"),
    create("sl/ash", source(), initial_state="STOPPED"),
    get("/connectors/sl%2Fash/config"),
    get("/connectors/sl/ash/config"),
    create("back\\slash", source(), initial_state="STOPPED"),
    get("/connectors/back%5Cslash/config"),
    create("ünï✓", source(), initial_state="STOPPED"),
    get("/connectors/%C3%BCn%C3%AF%E2%9C%93/config"),
    create("dots.and-dash_es~", source(), initial_state="STOPPED"),
    create("..", source(), initial_state="STOPPED"),
    create("per%cent?q#f;m=1", source(), initial_state="STOPPED"),
    get("/connectors/per%25cent%3Fq%23f%3Bm=1/config"),
    create('quo"te<&>+', source(), initial_state="STOPPED"),
    create(5, source(), initial_state="STOPPED"),
    create(True, source(), initial_state="STOPPED"),
    put("put%20new", source()),
    put("put%2Fnew", source()),
    put("%20lead", source()),
    put("%C3%BC", source(name="ü")),
    get("/connectors"),
    create("wrong-file", source(file="@dir@"), initial_state="STOPPED"),
    delete("wrong-file"),
]
"""Connectors that are created, read, changed and moved through their states."""

VALIDATED: Final = [
    validate("FileStreamSource", source(name="v")),
    validate("FileStreamSink", sink(name="v")),
    validate("FileStreamSourceConnector", source()),
    validate(SOURCE, source(name="v", tasks__max="x", nope="1")),
    validate(SINK, {"connector.class": "FileStreamSink"}),
    validate("FileStreamSink", sink(name="v", topics__regex="x", file=None)),
    validate("FileStreamSink", source()),
    validate("Nope", source()),
    validate("Nope", {"connector.class": "Nope"}),
    validate("FileStreamSink", {}),
    validate("FileStreamSink", {"connector.class": None}),
    validate("FileStreamSink", {"a": "1", "b": None}),
    validate("FileStreamSink", "[]"),
    validate("FileStreamSink", "{"),
    validate("FileStreamSink", None),
    validate(
        "FileStreamSource",
        source(
            name="v",
            key__converter="org.apache.kafka.connect.json.JsonConverter",
            key__converter__schemas__cache__size="x",
        ),
    ),
    validate("FileStreamSource", source(name="v", producer__override__acks="1")),
    validate("FileStreamSink", sink(name="v", consumer__override__max__poll__records="1")),
    validate("FileStreamSource", source(name="v", key__converter="nope.Nope")),
    validate("FileStreamSource", source(name="v", header__converter="JsonConverter")),
    validate(
        "FileStreamSource",
        source(
            name="v",
            topic__creation__default__partitions="1",
            topic__creation__default__replication__factor="1",
            topic__creation__groups="g",
            topic__creation__g__include="x.*",
        ),
    ),
    Ask("PUT", "/connector-plugins/FileStreamSink/config/validate", "{}", "text/plain"),
]
"""Validation, which leaves nothing behind."""


def patch(path: str, body: Body) -> Ask:
    return Ask("PATCH", path, body)


def offsets(name: str, *wanted: object) -> Ask:
    """The offsets of a connector, once they are these."""

    def reached(reply: Reply) -> bool:
        return reply.status == 200 and [each["offset"] for each in reply.json()["offsets"]] == list(
            wanted
        )

    return Ask("GET", f"/connectors/{name}/offsets", until=reached)


def alter(name: str, *pairs: object) -> Ask:
    return patch(f"/connectors/{name}/offsets", {"offsets": list(pairs)})


def pair(partition: object, offset: object) -> dict[str, object]:
    return {"partition": partition, "offset": offset}


_SINK: Final = "off-sink-@worker@"  # its consumer group is named after it, and both use one broker
_FILE: Final = {"filename": "@dir@/@worker@-in"}
_PLACE: Final = {"kafka_topic": "@worker@-off", "kafka_partition": 0}

PATCHED: Final = [
    patch("/connectors/none/config", {}),
    patch("/connectors/one/config", source(a="1", b="2")),
    patch("/connectors/one/config", {"a": None, "c": "3"}),
    get("/connectors/one/config"),
    patch("/connectors/one/config", {"tasks.max": 1, "b": None, "c": None, "nope": None}),
    patch("/connectors/one/config", {"tasks.max": "x"}),
    patch("/connectors/one/config", {"topic": None}),
    patch("/connectors/one/config", {}),
    patch("/connectors/one/config", "[]"),
    patch("/connectors/one/config", "{"),
    get("/connectors/one/config"),
    Ask("PATCH", "/connectors/one/config", "{}", "text/plain"),
    Ask("OPTIONS", "/connectors/one/config"),
]
"""Single settings."""

RESTARTED: Final = [
    Ask("POST", "/connectors/none/restart?includeTasks=true"),
    Ask("POST", "/connectors/none/restart?onlyFailed=true"),
    status("one", "RUNNING", "RUNNING"),
    Ask("POST", "/connectors/one/restart?includeTasks=true&onlyFailed=true"),
    Ask("POST", "/connectors/one/restart?onlyFailed=true"),
    Ask("POST", "/connectors/one/restart?includeTasks=true"),
    status("one", "RUNNING", "RUNNING"),
    Ask("POST", "/connectors/one/restart?includeTasks=maybe"),
    status("one", "RUNNING", "RUNNING"),
    Ask("POST", "/connectors/paused/restart?includeTasks=true"),
    status("paused", "PAUSED"),
]
"""Several at once."""

OFFSETS: Final = [
    get("/connectors/none/offsets"),
    alter("none", pair(_FILE, {"position": 1})),
    Ask("DELETE", "/connectors/none/offsets"),
    get("/connectors/one/offsets"),
    alter("one", pair(_FILE, {"position": 1})),
    Ask("DELETE", "/connectors/one/offsets"),
    create("off-source", source(file="@dir@/@worker@-in", topic="@worker@-off")),
    offsets("off-source", {"position": 14}),
    Ask("PUT", "/connectors/off-source/stop"),
    status("off-source", "STOPPED"),
    patch("/connectors/off-source/offsets", None),
    patch("/connectors/off-source/offsets", {}),
    patch("/connectors/off-source/offsets", {"offsets": None}),
    patch("/connectors/off-source/offsets", {"offsets": []}),
    patch("/connectors/off-source/offsets", {"nope": []}),
    patch("/connectors/off-source/offsets", "[]"),
    patch("/connectors/off-source/offsets", {"offsets": "x"}),
    patch("/connectors/off-source/offsets", {"offsets": ["x"]}),
    alter("off-source", pair("x", {"position": 1})),
    alter("off-source", pair(_FILE, {"position": -1})),
    alter("off-source", pair(_FILE, {"position": "7"})),
    alter("off-source", pair(_FILE, {"position": 1.5})),
    alter("off-source", pair(_FILE, {"nope": 7})),
    alter("off-source", pair({"nope": "x"}, {"position": 7})),
    alter("off-source", pair(None, {"position": 7})),
    alter("off-source", {"offset": {"position": 7}}),
    alter("off-source", pair({"nope": "x"}, None)),
    offsets("off-source", {"position": 14}),
    alter("off-source", pair(_FILE, {"position": 4})),
    offsets("off-source", {"position": 4}),
    alter("off-source", pair(_FILE, None)),
    offsets("off-source"),
    alter("off-source", pair(_FILE, {"position": 8})),
    Ask("DELETE", "/connectors/off-source/offsets"),
    offsets("off-source"),
    Ask("DELETE", "/connectors/off-source/offsets"),
    create(_SINK, sink(topics="@worker@-off", file="@dir@/@worker@-off-out")),
    offsets(_SINK, {"kafka_offset": 3}),
    alter(_SINK, pair(_PLACE, {"kafka_offset": 1})),
    Ask("PUT", f"/connectors/{_SINK}/stop"),
    status(_SINK, "STOPPED"),
    alter(_SINK, pair(None, {"kafka_offset": 1})),
    alter(_SINK, {"offset": {"kafka_offset": 1}}),
    alter(_SINK, pair({"kafka_topic": "t"}, {"kafka_offset": 1})),
    alter(_SINK, pair({**_PLACE, "kafka_topic": None}, {"kafka_offset": 1})),
    alter(_SINK, pair({**_PLACE, "kafka_partition": None}, {"kafka_offset": 1})),
    alter(_SINK, pair({**_PLACE, "kafka_partition": "x"}, {"kafka_offset": 1})),
    alter(_SINK, pair({**_PLACE, "kafka_partition": 1.5}, {"kafka_offset": 1})),
    alter(_SINK, pair(_PLACE, {"nope": 1})),
    alter(_SINK, pair(_PLACE, {"kafka_offset": "x"})),
    alter(_SINK, pair(_PLACE, {"kafka_offset": None})),
    alter(_SINK, pair(_PLACE, {"kafka_offset": "2"})),
    offsets(_SINK, {"kafka_offset": 2}),
    alter(_SINK, pair({**_PLACE, "kafka_partition": "0"}, {"kafka_offset": 1})),
    offsets(_SINK, {"kafka_offset": 1}),
    alter(_SINK, pair(_PLACE, None)),
    offsets(_SINK),
    alter(_SINK, pair(_PLACE, {"kafka_offset": 1})),
    Ask("DELETE", f"/connectors/{_SINK}/offsets"),
    offsets(_SINK),
    Ask("DELETE", f"/connectors/{_SINK}/offsets"),
    delete("off-source"),
    delete(_SINK),
]
"""Connector offsets, read and changed."""

ADMIN: Final = [
    Ask("PUT", "/connectors/none/topics/reset"),
    Ask("PUT", "/connectors/one/topics/reset"),
    get("/connectors/one/topics"),
    get("/connector-plugins/FileStreamSource/config"),
    get(f"/connector-plugins/{SINK}/config"),
    get("/connector-plugins/FileStreamSinkConnector/config"),
    get("/connector-plugins/Nope/config"),
    get("/connector-plugins/JsonConverter/config"),
    get("/connector-plugins/StringConverter/config"),
    get("/connector-plugins/org.apache.kafka.connect.converters.LongConverter/config"),
    get("/connector-plugins/org.apache.kafka.connect.storage.SimpleHeaderConverter/config"),
    get("/connector-plugins/org.apache.kafka.connect.transforms.Cast$Value/config"),
    get("/connector-plugins/org.apache.kafka.connect.transforms.InsertField$Key/config"),
    get("/connector-plugins/org.apache.kafka.connect.transforms.TimestampConverter$Value/config"),
    get("/connector-plugins/org.apache.kafka.connect.transforms.predicates.HasHeaderKey/config"),
    get("/admin/loggers/root"),
    get("/admin/loggers/nope.nope"),
    Ask("PUT", "/admin/loggers/x.y", {"level": "debug"}),
    get("/admin/loggers/x.y"),
    Ask("PUT", "/admin/loggers/x.y.z", {"level": "OFF"}),
    Ask("PUT", "/admin/loggers/x.y", {"level": "trace"}),
    get("/admin/loggers/x.y.z"),
    Ask("PUT", "/admin/loggers/x.y", {"level": "nope"}),
    Ask("PUT", "/admin/loggers/x.y", {"level": None}),
    Ask("PUT", "/admin/loggers/x.y", {}),
    Ask("PUT", "/admin/loggers/x.y", {"level": "FATAL"}),
    get("/admin/loggers/x.y"),
    Ask("PUT", "/admin/loggers/x.w?scope=cluster", {"level": "WARN"}),
    Ask("PUT", "/admin/loggers/x.w?scope=nope", {"level": "ALL"}),
    Ask("PUT", "/admin/loggers/x.w?scope=cluster", {"level": "nope"}),
    Ask("OPTIONS", "/admin/loggers/root"),
    Ask("POST", "/admin/loggers", "{}"),
]
"""Topics, plugins, loggers."""

DELETED: Final = [
    *[
        delete(name)
        for name in (
            "one",
            "two",
            "paused",
            "stopped",
            "running",
            "Running",
            "trimmed",
            "with%20space",
            "sl%2Fash",
            "back%5Cslash",
            "%C3%BCn%C3%AF%E2%9C%93",
            "dots.and-dash_es~",
            "per%25cent%3Fq%23f%3Bm=1",
            "quo%22te%3C&%3E+",
            "5",
            "true",
            "put%20new",
            "put%2Fnew",
            "%20lead",
            "%C3%BC",
            "%2E%2E",
        )
    ],
    delete("one"),
    get("/connectors/one"),
    gone("one"),
    get("/connectors"),
]
"""Everything is deleted again."""

_FOLLOWED: Final = {"file": "@dir@/@worker@-in", "topic": "@worker@-stored", "batch.size": "1"}


def _configured(batch: str) -> Callable[[Reply], bool]:
    def reached(reply: Reply) -> bool:
        tasks = reply.json() if reply.status == 200 else []
        return [task["config"].get("batch.size") for task in tasks] == [batch]

    return reached


def _stored(name: str, **more: object) -> list[Ask]:
    return [
        create(name, source(**_FOLLOWED), **more),
        status(name, "RUNNING", "RUNNING"),
        get(f"/connectors/{name}/tasks"),
    ]


STORED: Final = [
    *_stored("st-or-ed"),
    Ask("GET", "/connectors/st-or-ed/topics", until=lambda reply: "-stored" in reply.body),
    Ask("PUT", "/connectors/st-or-ed/pause"),
    status("st-or-ed", "PAUSED", "PAUSED"),
    Ask("PUT", "/connectors/st-or-ed/resume"),
    status("st-or-ed", "RUNNING", "RUNNING"),
    put("st-or-ed", source(**(_FOLLOWED | {"batch.size": 2, "ü/\\": '\u0001\u001f"é✓😀'}))),
    Ask("GET", "/connectors/st-or-ed/tasks", until=_configured("2")),
    status("st-or-ed", "RUNNING", "RUNNING"),
    Ask("PUT", "/connectors/st-or-ed/stop"),
    status("st-or-ed", "STOPPED"),
    delete("st-or-ed"),
    gone("st-or-ed"),
    create("st-paused", source(), initial_state="PAUSED"),
    status("st-paused", "PAUSED"),
    delete("st-paused"),
    gone("st-paused"),
    create("st-stopped", source(), initial_state="STOPPED"),
    status("st-stopped", "STOPPED"),
    create(
        "st-sink",
        sink(
            **{
                "transforms": "",
                "a": "1",
                "b": "2",
                "consumer.x": "3",
                "errors.tolerance": "all",
                "key.converter": "StringConverter",
                "topics": "@worker@-u, @worker@-v",
                "file": "@dir@/@worker@-o",
            }
        ),
    ),
    status("st-sink", "RUNNING", "RUNNING"),
    get("/connectors/st-sink/tasks"),
    delete("st-sink"),
    delete("st-stopped"),
    gone("st-sink"),
    gone("st-stopped"),
]
"""Operations whose records in the internal topics are compared, each waited for."""

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SIMPLE: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_HOIST: Final = {
    "transforms": "a",
    "transforms.a.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.a.field": "f",
}
_HAS_HEADER: Final = {
    "predicates": "a",
    "predicates.a.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "predicates.a.name": "h",
}
_RANGES: Final = ("4.3.1", "4.3", "9.9", "latest", "LATEST", "", " 4.3.1", "[1,5)", "[5,6)", "[1")

VERSIONS: Final = [
    *(get(f"/connector-plugins/FileStreamSource/config?version={quote(of)}") for of in _RANGES),
    get("/connector-plugins/JsonConverter/config?version=9.9"),
    get("/connector-plugins/nobody/config?version=9.9"),
    get("/connector-plugins/nobody/config?version=%5B1"),
    *(validate("FileStreamSource", source(connector__plugin__version=of)) for of in _RANGES),
    create("versions", source(connector__plugin__version="[5,6)")),
    create("versions", source(key__converter=_JSON, key__converter__plugin__version="9.9")),
    *(
        validate("FileStreamSource", source(**given))
        for given in (
            {"key.converter": _JSON, "key.converter.plugin.version": "9.9"},
            {"key.converter": _JSON, "key.converter.plugin.version": "[4,5)"},
            {"value.converter.plugin.version": "9.9"},
            {"header.converter": _SIMPLE, "header.converter.plugin.version": "9.9"},
            {**_HOIST, "transforms.a.plugin.version": "9.9"},
            {**_HOIST, "transforms.a.plugin.version": "4.3.1"},
            {**_HAS_HEADER, "predicates.a.plugin.version": "(,4)"},
        )
    ),
]
"""Requested plugin versions, existing or not (KIP-891)."""

SCRIPT: Final = [
    *SERVER,
    *UNKNOWN,
    *REFUSED,
    *VALIDATED,
    *CREATED,
    *RESTARTED,
    *PATCHED,
    *OFFSETS,
    *ADMIN,
    *VERSIONS,
    *DELETED,
    *STORED,
]
