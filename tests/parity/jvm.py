"""A JVM with Kafka Connect's own classes, to ask them how they behave.

    with KafkaConnect.started() as connect:
        parsed = connect.call("parsed", "12.5")              # Values.parseString
        schema, value = connect.value(parsed)                # FLOAT32, 12.5
        converter = connect.new("org.apache.kafka.connect.storage.SimpleHeaderConverter")
        header = connect.pair(schema, value)
        connect.call("fromConnectHeader", converter, "topic", "name", header)  # b"12.5"

penstock's schemas and values are passed as text (`typed`), so that a Byte stays a Byte: py4j alone
knows only Python's numbers. `Bridge.java` is the other end; it is compiled inside the JVM by the
Janino that ships inside PySpark. The JVM uses English and UTC.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError, get_return_value

from penstock.data.schema import Schema, Value
from penstock.errors import StartupFailed
from penstock.host import jars

from .typed import Json, json_schema, json_value, schema_json, value_json

JavaObject: TypeAlias = Any
"""A reference to an object in the JVM; its methods are called as if they were Python's."""

_BRIDGE: Final = Path(__file__).with_name("Bridge.java")
_OPTIONS: Final = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8"),
    *("-Dlog4j2.level=OFF", "-Dlog4j2.statusLoggerLevel=OFF"),
)
_STOP_S: Final = 10.0


class JavaThrew(Exception):
    """An uncaught Py4JJavaError, which cannot be printed after the JVM has ended."""


@dataclass(frozen=True, slots=True)
class KafkaConnect:
    """The running JVM. One thread at a time."""

    gateway: JavaGateway
    bridge: JavaObject

    @classmethod
    @contextmanager
    def started(cls, family: str = "connect") -> Iterator[KafkaConnect]:
        """A JVM with the jars of a family, which lives as long as the block; StartupFailed if it
        does not start."""
        spark = _spark_jars()
        own = [_one(spark, pattern) for pattern in ("py4j-*", "janino-*", "commons-compiler-*")]
        classes = [*own, *sorted(jars.folder(family).glob("*.jar"))]
        command = [jars.java(), *_OPTIONS, "-cp", os.pathsep.join(map(str, classes))]
        # Port 0: a free one, which it prints. It ends when its standard input does.
        command += ["py4j.GatewayServer", "--die-on-broken-pipe", "0"]
        # A Spark session of this process, even one that ended, left a hook that would ask Spark's
        # JVM about the exceptions of this one.
        own_errors = patch.object(java_gateway, "get_return_value", get_return_value)
        with own_errors, Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process:
            try:
                assert process.stdout is not None
                port = process.stdout.readline().strip()
                if not port.isdigit():
                    raise StartupFailed("The JVM with Kafka Connect's classes did not start.")
                # Python releases nothing before the JVM ends, and afterwards nothing exists.
                parameters = GatewayParameters(port=int(port), enable_memory_management=False)
                gateway = JavaGateway(gateway_parameters=parameters)
                try:
                    yield cls(gateway, _compiled(gateway))
                except Py4JJavaError as error:
                    raise JavaThrew(": ".join(map(str, thrown(error)))) from None
                gateway.close()
            finally:
                process.terminate()
                process.wait(_STOP_S)

    def new(self, class_name: str, *arguments: object) -> JavaObject:
        """An object of a class by its full name (`a.b.Cast$Value`)."""
        loaded = self.gateway.jvm.java.lang.Class.forName(class_name)
        if not arguments:
            nothing = self.gateway.new_array(self.gateway.jvm.java.lang.Object, 0)
            kinds = self.gateway.new_array(self.gateway.jvm.java.lang.Class, 0)
            return loaded.getDeclaredConstructor(kinds).newInstance(nothing)
        known: JavaObject = self.gateway.jvm
        for part in class_name.split("."):
            known = getattr(known, part)
        return known(*arguments)

    def map(self, entries: Mapping[str, object]) -> JavaObject:
        """A `java.util.HashMap`, for `configure`."""
        made = self.gateway.jvm.java.util.HashMap()
        for name, entry in entries.items():
            made.put(name, entry)
        return made

    def call(self, method: str, *arguments: object) -> Any:
        """What a static method of `Bridge` returns; raises py4j's Py4JJavaError (see `thrown`)."""
        return getattr(self.bridge, method)(*arguments)

    def pair(self, schema: Schema | None, value: Value) -> JavaObject:
        """A `SchemaAndValue`; `.schema()` is the Java schema, the value stays in it."""
        return self.typed_pair(schema_json(schema), value_json(schema, value))

    def typed_pair(self, schema: Json, value: Json) -> JavaObject:
        """A `SchemaAndValue` of what `typed` describes: for classes that penstock does not have."""
        return self.call("pair", json.dumps(schema), json.dumps(value))

    def typed(self, pair: JavaObject) -> tuple[Json, Json]:
        """Schema and value of a `SchemaAndValue`, as `typed` describes them: exact classes."""
        schema, value = json.loads(self.call("pairText", pair))
        return schema, value

    def value(self, pair: JavaObject) -> tuple[Schema | None, Value]:
        """Schema and value of a `SchemaAndValue`, as penstock has them."""
        schema, value = self.typed(pair)
        known = json_schema(schema)
        return known, json_value(known, value)

    def apply(
        self, class_name: str, config: Mapping[str, str | None], records: Sequence[Json]
    ) -> list[Json] | Json:
        """Per record, the resulting record, None if it is dropped, true or false from a predicate,
        or `{"thrown": [class, message]}`; `{"refused": …}` if the configuration is.
        """
        found = self.call("apply", class_name, json.dumps(config), json.dumps(records))
        return json.loads(found)

    def definition(self, class_name: str) -> list[Json]:
        """What the `config()` of a plugin declares, a dict per setting, in its order."""
        found = json.loads(self.call("definition", self.new(class_name).config()))
        assert isinstance(found, list)
        return found


def thrown(error: Any) -> tuple[str, str | None]:
    """Class and message of a Py4JJavaError's Java exception."""
    cause = error.java_exception
    return cause.getClass().getName(), cause.getMessage()


def _compiled(gateway: JavaGateway) -> JavaObject:
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    try:
        compiler.cook(_BRIDGE.read_text())
    except Py4JJavaError as error:
        raise StartupFailed(f"{_BRIDGE.name} does not compile: {thrown(error)[1]}") from None
    # py4j can call only objects here; the class is not where it would look it up.
    loaded = compiler.getClassLoader().loadClass("penstock.Bridge")
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    kinds = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    return loaded.getDeclaredConstructor(kinds).newInstance(nothing)


def _spark_jars() -> Path:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise StartupFailed("PySpark is not installed; run `make setup`.")
    return Path(spec.submodule_search_locations[0]) / "jars"


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(f"{pattern}.jar"))
    if not found:
        raise StartupFailed(f"PySpark comes without {pattern}.jar here; run `make setup`.")
    return found[0]
