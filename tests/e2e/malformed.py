"""Requests and configurations that are wrong, made up by family from a seed: the same in every run.

Each says with which statuses it may be refused. They are written to a socket as they stand, since
most clients would mend them on the way.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.config import connector as connector_config
from penstock.config.define import Key
from penstock.connectors import file

RUNNING: Final = "running"
STOPPED_SOURCE: Final = "stopped-source"
STOPPED_SINK: Final = "stopped-sink"

SOURCE: Final = {"connector.class": "FileStreamSource", "file": "absent", "topic": "nowhere"}
SINK: Final = {"connector.class": "FileStreamSink", "file": "absent", "topics": "nowhere"}

JSON: Final = "application/json"
SEED: Final = 6
OVERSIZE: Final = 70_000  # more than the server reads of a request's head


@dataclass(frozen=True, slots=True)
class Wrong:
    """A request, byte for byte. `statuses` are those it may be answered with; `names` is what the
    message has to speak of. What is no HTTP is refused by the HTTP server in its own words; who
    goes away in the middle (`cut`) need not be answered."""

    what: str
    sent: bytes
    statuses: frozenset[int]
    names: str = ""
    http: bool = True
    cut: bool = False


def request(
    method: str,
    target: str,
    body: bytes | None = None,
    *,
    content_type: str | None = JSON,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """A request that asks for the connection to be closed after it."""
    given = {"Host": "worker", "Connection": "close", **(headers or {})}
    if body is not None:
        given["Content-Length"] = str(len(body))
        if content_type is not None:
            given["Content-Type"] = content_type
    head = "".join(f"{name}: {text}\r\n" for name, text in given.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b"")


def wrong(
    method: str,
    target: str,
    body: object = None,
    statuses: Iterable[int] = (500,),
    names: str = "",
    **more: Any,
) -> Wrong:
    """A request with a body that is bytes, or is made to JSON."""
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    what = f"{method} {target[:80]} {(sent or b'')[:120]!r} {more or ''}"
    return Wrong(what, request(method, target, sent, **more), frozenset(statuses), names)


WRITING: Final[tuple[tuple[str, str, object], ...]] = (
    ("POST", "/connectors", {"name": "new", "config": SOURCE}),
    ("PUT", "/connectors/new/config", SOURCE),
    ("PUT", f"/connectors/{RUNNING}/config", SOURCE),
    ("PATCH", f"/connectors/{RUNNING}/config", {"batch.size": "5"}),
    ("PATCH", f"/connectors/{STOPPED_SOURCE}/offsets", {"offsets": []}),
    ("PUT", "/connector-plugins/FileStreamSource/config/validate", SOURCE),
    ("PUT", "/admin/loggers/penstock.nowhere", {"level": "INFO"}),
)
"""Every endpoint that takes a body from users, and one it would take."""


def _broken(good: bytes, chance: random.Random) -> Iterator[bytes]:
    for _ in range(4):
        yield good[: chance.randrange(1, len(good))]  # cut off
    for _ in range(3):
        at = chance.randrange(len(good))
        yield good[:at] + bytes([chance.choice([0x80, 0xC3, 0xFF])]) + good[at:]  # no UTF-8
    yield from (
        b"{",
        b"nope",
        b"'a'",
        b'{"a" "b"}',
        b"{,}",
        b'{"a":}',
        b'{"a":1,}',
        b"\xff\xfe\x00",
    )
    yield good.replace(b'"', b"'")
    yield b"// a comment\n" + good
    yield good[:-1] + b', "n": NaN}'
    yield good[:-1] + b', "n": 01}'
    yield good[:-1] + b', "half": "\\ud800"}'
    yield good[:-1] + b', "tab": "\t"}'
    yield b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    yield b"[" * 100_000


def _no_json(body: bytes) -> bool:
    try:
        json.loads(body.decode(), parse_constant=_refused)
    except (ValueError, RecursionError):
        return True
    return "ud800" in body.decode()


def _refused(name: str) -> None:
    raise ValueError(name)


def broken_json(chance: random.Random) -> Iterator[Wrong]:
    for method, target, good in WRITING:
        for body in _broken(json.dumps(good).encode(), chance):
            if _no_json(body):
                yield wrong(method, target, body)


def wrong_types(chance: random.Random) -> Iterator[Wrong]:
    others: tuple[object, ...] = ([], [1], "text", 5, -1.5, True, [[]], [{}], ["a", {"b": 1}])
    for method, target, _ in WRITING:
        for body in others:
            yield wrong(method, target, body)
    nested: tuple[object, ...] = ({}, {"a": "b"}, [], ["a"], [[1]])
    for value in nested:
        yield wrong("POST", "/connectors", {"name": "new", "config": {**SOURCE, "file": value}})
        yield wrong("POST", "/connectors", {"name": value, "config": SOURCE})
        yield wrong(
            "POST", "/connectors", {"name": "new", "config": SOURCE, "initial_state": value}
        )
        yield wrong("PUT", "/connectors/new/config", {**SOURCE, "batch.size": value})
        yield wrong("PATCH", f"/connectors/{RUNNING}/config", {"batch.size": value})
        yield wrong(
            "PUT", "/connector-plugins/FileStreamSource/config/validate", {**SOURCE, "x": value}
        )
        yield wrong("PUT", "/admin/loggers/penstock.nowhere", {"level": value})
    for config in (None, [], "text", 5, True):
        yield wrong("POST", "/connectors", {"name": "new", "config": config})
    yield wrong("POST", "/connectors", {"name": "new"})
    yield wrong("POST", "/connectors", {"name": "new", "config": SOURCE, "other": 1})
    for state in ("", "nope", "running ", "UNASSIGNED", 5, True):
        body = {"name": "new", "config": SOURCE, "initial_state": state}
        yield wrong("POST", "/connectors", body)


def media_types(chance: random.Random) -> Iterator[Wrong]:
    kinds = ("text/plain", "application/xml", "multipart/form-data", "application/jsonx", "a/b;c=d")
    for method, target, good in WRITING:
        for kind in kinds:
            yield wrong(method, target, good, (415,), content_type=kind)
        for kind in ("json", "application", "/json", "application json", ";", "\xff/\xfe"):
            yield wrong(method, target, good, (400,), content_type=kind)
        yield wrong(method, target, good, (415,), content_type=None)
        yield wrong(method, target, good, (406,), headers={"Accept": "text/html, image/*"})
    for target in ("/", "/connectors", f"/connectors/{RUNNING}/status"):
        yield wrong("GET", target, None, (406,), headers={"Accept": "application/json;q=0"})
        yield wrong("GET", target, None, (406,), headers={"Accept": "text/plain"})
    for method, target in (
        ("GET", "/connectors"),
        ("GET", f"/connectors/{RUNNING}/status"),
        ("GET", "/connector-plugins"),
        ("GET", "/admin/loggers"),
        ("PUT", f"/connectors/{RUNNING}/pause"),
        ("POST", f"/connectors/{RUNNING}/restart"),
        ("DELETE", f"/connectors/{RUNNING}"),
    ):
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            yield wrong(method, target, None, (415,), headers={"Content-Type": kind})
    yield wrong("DELETE", f"/connectors/{RUNNING}", b"x", (415,), content_type="text/plain")


def names(chance: random.Random) -> Iterator[Wrong]:
    for name in ("", " ", "\t \n", None):
        yield wrong("POST", "/connectors", {"name": name, "config": SOURCE}, (400,))
    for code in (*range(1, 0x20), 0x7F, *range(0x80, 0xA0, 5)):
        name = f"a{chr(code)}b"
        body = {"name": name, "config": SOURCE}
        yield wrong("POST", "/connectors", body, (400,), "control sequences")
    for code in range(0x20):
        yield wrong("PUT", f"/connectors/a%{code:02X}b/config", SOURCE, (400,))
    for name in ("other", "", "new ", "NEW"):
        named = {**SOURCE, "name": name}
        yield wrong("POST", "/connectors", {"name": "new", "config": named}, (400,))
        yield wrong("PUT", "/connectors/new/config", named, (400,), "doesn't match")


def paths(chance: random.Random) -> Iterator[Wrong]:
    for target in (
        *(
            "/nope",
            "/connectors/none/nope",
            "/connectors/none/tasks/0",
            "/Connectors",
            "/.",
            "/...",
        ),
        *("/connectors;a=b/none/nope", "/connector-plugins/x", "/admin", "/admin/logger/root"),
        *("/index.html", "/robots.txt", "/%6eope", "/connectors/none/tasks-config", "/*", "/:"),
    ):
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            yield wrong(method, target, None, (404, 405))
    for target in ("//", "//connectors", "/connectors//", "/connectors//config", "///etc/passwd"):
        yield wrong("GET", target, None, (400,))
    for escape in ("%", "%2", "%zz", "%%", "%0", "%-1", "%u0041", "% 41"[:1] + "%G0"):
        yield wrong("GET", f"/connectors/{escape}", None, (400,))
        yield wrong("PUT", f"/connectors/a{escape}/config", SOURCE, (400,))
    for name in (
        *("%00", "%FF", "%C0%AF", "%ED%A0%80", "%F4%90%80%80", "%2e%2e%2fetc", "..", ".", "~", "*"),
        *("%0A", "a%0Ab", "%0D%0ASet-Cookie:x", "%E2%80%A8", "%20", "+", "%25", "%2F%2F", "a;b=c"),
        *("${file:x:y}", "{connector}", "<script>", "'%22", "none%3Fx", "%F0%9F%92%A9", "x" * 5000),
    ):
        yield wrong("GET", f"/connectors/{name}", None, (404,))
        yield wrong("GET", f"/connectors/{name}/status", None, (404,))
        yield wrong("DELETE", f"/connectors/{name}", None, (404,))
        yield wrong("PUT", f"/connectors/{name}/pause", None, (404,))
        yield wrong("POST", f"/connectors/{name}/restart", None, (404,))
    for task in ("x", "-1", "99", "1.5", "0x0", "%00", "2147483648", "9" * 40, "", "%D9%A0", "%20"):
        for what, method in (("status", "GET"), ("restart", "POST")):
            expected = (404,) if task else (400,)
            yield wrong(method, f"/connectors/{RUNNING}/tasks/{task}/{what}", None, expected)
    for plugin in ("nope", "%00", "..", "Kafka", "x" * 3000):
        yield wrong("GET", f"/connector-plugins/{plugin}/config", None, (404,))
    for logger in ("nope", "%00", "penstock..x", "x" * 3000):
        yield wrong("GET", f"/admin/loggers/{logger}", None, (404,))


def queries(chance: random.Random) -> Iterator[Wrong]:
    odd = ("=", "&", "%", "%zz", "a=%FF", "a" * 3000, "includeTasks=maybe", "onlyFailed", "x[]=1")
    for query in (*odd, "forward=", "forward=nope", "forward=false", "forward=true&forward=x"):
        yield wrong("POST", f"/connectors/none/restart?{query}", None, (404,))
        yield wrong("PUT", f"/connectors/none/pause?{query}", None, (404,))
        yield wrong("DELETE", f"/connectors/none?{query}", None, (404,))
        yield wrong("GET", f"/connectors/none?expand={query}", None, (404,))
    level = {"level": "LOUD"}
    for scope in ("cluster", "worker", "nope", "", "%FF"):
        target = f"/admin/loggers/penstock.nowhere?scope={scope}"
        yield wrong("PUT", target, level, (404,), "LOUD")
        yield wrong("PUT", target, {}, (400,), "level")


def _bad_values(key: Key[Any]) -> Iterator[object]:
    """Values that a setting of this kind refuses."""
    match key.kind.name:
        case "INT" | "LONG" | "SHORT":
            yield from ("x", "1.5", "", "9" * 30, "0x1", "1e3", True)
        case "BOOLEAN":
            yield from ("x", "1", "yes", 0)
        case "CLASS":
            yield from ("no.such.Class", "java.lang.String")
    match key.name:
        case "tasks.max":
            yield from ("0", "-1")
        case "errors.tolerance" | "exactly.once.support" | "transaction.boundary":
            yield from ("x", "")
        case "config.action.reload":
            yield "sometimes"
        case "transforms" | "predicates":
            yield from ("a,a", "a", "a,,b")
        case "topics.regex":
            yield "["
        case "topic":
            yield ""


def _settings(
    framework: Iterable[Key[Any]], own: Iterable[Key[Any]]
) -> Iterator[tuple[str, object]]:
    """Settings with values they refuse. A null is refused for what every connector has; for a
    plugin's own settings it is as good as none, as in Kafka Connect."""
    for key in framework:
        if key.name not in ("name", "connector.class"):
            yield from ((key.name, value) for value in (*_bad_values(key), None))
    for key in own:
        yield from ((key.name, value) for value in _bad_values(key))


def configs(chance: random.Random) -> Iterator[Wrong]:
    sources = tuple(_settings(connector_config.SOURCE.keys, file.FILE_SOURCE.keys))
    sinks = tuple(_settings(connector_config.SINK.keys, file.FILE_SINK.keys))
    for base, settings in ((SOURCE, sources), (SINK, sinks)):
        for name, value in settings:
            config: dict[str, object] = {**base, name: value}
            told = "" if value is None else name  # Kafka Connect does not say what is null
            if name == "topics.regex":
                config.pop("topics", None)
            yield wrong("POST", "/connectors", {"name": "new", "config": config}, (400,), told)
            if base is SOURCE:
                yield wrong("PUT", f"/connectors/{RUNNING}/config", config, (400,), told)
                if value is not None:
                    target = f"/connectors/{RUNNING}/config"
                    yield wrong("PATCH", target, {name: value}, (400,), told)
    for name in ("topic", "connector.class"):
        yield wrong("PATCH", f"/connectors/{RUNNING}/config", {name: None}, (400,))
    for given in ("", " ", "Nope", "org.example.Nope", "FileStream", "java.lang.Object", "\x00"):
        config = {**SOURCE, "connector.class": given}
        yield wrong("POST", "/connectors", {"name": "new", "config": config}, (400,))
        yield wrong("PUT", f"/connectors/{RUNNING}/config", config, (400,))
        yield wrong("PATCH", f"/connectors/{RUNNING}/config", {"connector.class": given}, (400,))
    for config in (
        {},
        {"a": "b"},
        {"connector.class": None},
        {"connector.class": "FileStreamSink"},
    ):
        yield wrong("POST", "/connectors", {"name": "new", "config": config}, (400,))
        yield wrong("PUT", "/connectors/new/config", config, (400,))
    target = "/connector-plugins/FileStreamSink/config/validate"
    yield wrong("PUT", target, SOURCE, (400,), "does not match")
    yield wrong("PUT", "/connector-plugins/Nope/config/validate", SOURCE, (400,), "does not match")


def offsets(chance: random.Random) -> Iterator[Wrong]:
    place, position = {"filename": "absent"}, {"position": 1}
    source_pairs: tuple[object, ...] = (
        "x",
        5,
        [],
        {"partition": "x", "offset": position},
        {"partition": [], "offset": position},
        {"partition": None, "offset": position},
        {"offset": position},
        {"partition": place, "offset": "x"},
        {"partition": place, "offset": [1]},
        {"partition": place, "offset": {"position": "1"}},
        {"partition": place, "offset": {"position": 1.5}},
        {"partition": place, "offset": {"position": -1}},
        {"partition": place, "offset": {"position": None}},
        {"partition": place, "offset": {"position": 10**30}},
        {"partition": place, "offset": {"position": True}},
        {"partition": place, "offset": {"other": 1}},
        {"partition": {"other": "x"}, "offset": position},
        {"partition": place, "offset": position, "other": 1},
    )
    spot, at = {"kafka_topic": "nowhere", "kafka_partition": 0}, {"kafka_offset": 1}
    sink_pairs: tuple[object, ...] = (
        "x",
        {"partition": None, "offset": at},
        {"partition": {}, "offset": at},
        {"partition": {"kafka_topic": "t"}, "offset": at},
        {"partition": {**spot, "kafka_topic": None}, "offset": at},
        {"partition": {**spot, "kafka_partition": None}, "offset": at},
        {"partition": {**spot, "kafka_partition": "x"}, "offset": at},
        {"partition": {**spot, "kafka_partition": 1.5}, "offset": at},
        {"partition": {**spot, "kafka_partition": 2**31}, "offset": at},
        {"partition": {**spot, "kafka_partition": []}, "offset": at},
        {"partition": spot, "offset": {}},
        {"partition": spot, "offset": {"kafka_offset": None}},
        {"partition": spot, "offset": {"kafka_offset": "x"}},
        {"partition": spot, "offset": {"kafka_offset": 1.5}},
        {"partition": spot, "offset": {"kafka_offset": 2**63}},
        {"partition": spot, "offset": {"kafka_offset": -1}},
        {"partition": spot, "offset": {"kafka_offset": {}}},
        {"partition": spot, "offset": "x"},
    )
    for name, pairs in ((STOPPED_SOURCE, source_pairs), (STOPPED_SINK, sink_pairs)):
        target = f"/connectors/{name}/offsets"
        for pair in pairs:
            yield wrong("PATCH", target, {"offsets": [pair]}, (400, 500))
        for body in (None, b"", {}, {"offsets": None}, {"offsets": []}, {"other": []}):
            yield wrong("PATCH", target, body, (400, 415, 500))
        for value in ("x", 5, {}, {"partition": place}, [None], [[]], True):
            yield wrong("PATCH", target, {"offsets": value}, (400, 500))
    good = {"offsets": [{"partition": place, "offset": position}]}
    yield wrong("PATCH", f"/connectors/{RUNNING}/offsets", good, (400,), "STOPPED")
    yield wrong("DELETE", f"/connectors/{RUNNING}/offsets", None, (400,), "STOPPED")
    yield wrong("PATCH", "/connectors/none/offsets", good, (404,), "none")
    yield wrong("DELETE", "/connectors/none/offsets", None, (404,), "none")


def internal(chance: random.Random) -> Iterator[Wrong]:
    """Requests between workers that no worker has signed."""
    tasks: Final = f"/connectors/{RUNNING}/tasks"
    signed = {
        "X-Connect-Authorization": "AAAA",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    for body in ([], [{}], [SOURCE], {}, "x", b"{"):
        yield wrong("POST", tasks, body, (400,))
        yield wrong("POST", tasks, body, (403,), headers=signed)
    yield wrong("PUT", f"/connectors/{RUNNING}/fence", None, (400,))
    yield wrong("PUT", f"/connectors/{RUNNING}/fence", None, (403,), headers=signed)
    for name, text in (
        ("X-Connect-Authorization", "no base64!"),
        ("X-Connect-Authorization", "\xff\xfe"),
        ("X-Connect-Authorization", ""),
        ("X-Connect-Request-Signature-Algorithm", "HmacMD5"),
        ("X-Connect-Request-Signature-Algorithm", "none"),
        ("X-Connect-Request-Signature-Algorithm", ""),
    ):
        yield wrong("POST", tasks, [], (400, 403), headers={**signed, name: text})


def methods(chance: random.Random) -> Iterator[Wrong]:
    for target in ("/", "/connectors", f"/connectors/{RUNNING}", "/admin/loggers", "/health"):
        for method in ("TRACE", "LINK", "PURGE", "get", "M-SEARCH", "PROPFIND", "X" * 200):
            yield wrong(method, target, None, (405,))
    for method, target in (
        ("DELETE", "/connectors"),
        ("PUT", "/connectors"),
        ("POST", f"/connectors/{RUNNING}"),
        ("GET", f"/connectors/{RUNNING}/pause"),
        ("POST", f"/connectors/{RUNNING}/stop"),
        ("DELETE", "/admin/loggers/root"),
        ("POST", "/health"),
        ("PUT", "/openapi.json"),
    ):
        yield wrong(method, target, None, (405,))


def heads(chance: random.Random) -> Iterator[Wrong]:
    """What is no HTTP, or hardly: the HTTP server itself refuses it."""

    def no_http(what: str, sent: bytes) -> Wrong:
        return Wrong(what, sent, frozenset({400, 404, 405, 413, 414, 431, 501, 505}), http=False)

    host = b"Host: worker\r\nConnection: close\r\n"
    line = b"GET /connectors/none HTTP/1.1\r\n"
    post = b"POST /connectors HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n"
    for start in (
        b"GET\r\n",
        b"GET /\r\n",
        b"GET / HTTP\r\n",
        b"GET / FTP/1.1\r\n",
        b"GET  /  HTTP/1.1\r\n",
        b"GET /a b HTTP/1.1\r\n",
        b"G\xc3\x84T / HTTP/1.1\r\n",
        b"GET /\xc3\xbc HTTP/1.1\r\n",
        b"GET /\x00 HTTP/1.1\r\n",
        b"/ GET HTTP/1.1\r\n",
        b"{}\r\n",
        b"\x00\x01\x02\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"HELO worker\r\n",
        b"GET /" + b"x" * OVERSIZE + b" HTTP/1.1\r\n",
    ):
        yield no_http(f"line {start[:40]!r}", start + host + b"\r\n")
    for header in (
        b"no colon\r\n",
        b": empty name\r\n",
        b"Spa ce: x\r\n",
        b"Before : x\r\n",
        b"Nul: a\x00b\r\n",
        b"N\xc3\xa4me: x\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: x\r\n",
        b"Content-Length: 1, 2\r\n",
        b"Content-Length: 1\r\nContent-Length: 2\r\n",
        b"Content-Length: " + b"9" * 400 + b"\r\n",
        b"Transfer-Encoding: nope\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Big: " + b"x" * OVERSIZE + b"\r\n",
        b"".join(b"H%d: %s\r\n" % (n, b"x" * 100) for n in range(1_000)),
        b"Host: other\r\n",
    ):
        yield no_http(f"header {header[:40]!r}", line + host + header + b"\r\n")
    yield no_http("no host", line + b"Connection: close\r\n\r\n")
    for chunk in (b"x\r\n", b"-1\r\n", b"5\r\nabc\r\n0\r\n\r\nxx\r\n", b"g\r\n{}\r\n", b"\r\n\r\n"):
        yield no_http(f"chunk {chunk!r}", chunked + b"\r\n" + chunk + b"0\r\n\r\n")
    yield no_http("chunk size", chunked + b"\r\n" + b"1" * 30 + b"\r\n")
    both = chunked + b"Content-Length: 3\r\n\r\n" + b"5\r\nhello\r\n0\r\n\r\n"
    # Whom the length is for is not to be guessed: what follows might be another request.
    yield Wrong("both lengths", both, frozenset({400, 500}), http=False)
    yield no_http("a ClientHello", bytes.fromhex("16030100750100007103031a2b3c4d") + b"\x00" * 60)
    yield no_http("noise", chance.randbytes(300).replace(b"\n", b"") + b"\r\n\r\n")
    for what, rest in (
        ("nothing", b""),
        ("half a line", b"GET /conn"),
        ("half a head", line + b"Host: wor"),
        ("half a body", post + b"Content-Length: 100\r\n\r\n" + b'{"name":'),
        ("half a chunk", chunked + b"\r\n" + b"64\r\n" + b'{"name":'),
        ("no last chunk", chunked + b"\r\n" + b"2\r\n{}\r\n"),
        ("half a chunk's size", chunked + b"\r\n" + b"1;" + b"x" * OVERSIZE),
    ):
        yield Wrong(what, rest, frozenset({400}), http=False, cut=True)


FAMILIES: Final[Mapping[str, Callable[[random.Random], Iterator[Wrong]]]] = {
    "JSON that is none": broken_json,
    "JSON of another shape": wrong_types,
    "media types": media_types,
    "names": names,
    "paths": paths,
    "queries": queries,
    "configurations": configs,
    "offsets": offsets,
    "requests between workers": internal,
    "methods": methods,
    "heads": heads,
}


def made(family: str) -> list[Wrong]:
    """The requests of a family."""
    return list(FAMILIES[family](random.Random(f"{SEED} {family}")))
