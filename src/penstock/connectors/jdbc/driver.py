"""Databases that are reached by a JDBC driver's jar, in a JVM inside the Python process.

Records are read and written in Python processes, often many of them and on other machines, which
have no way into Spark's own JVM; and what Spark can do with a driver is to append rows. So a
process that needs a driver starts a JVM of its own, by JPype, when it first connects: never
earlier, for what is forked from a process with a JVM has a broken one (`flow.daemon` forks before
it runs any task). The JVM leaves signals and the end of the process to Python, takes no more than
`HEAP`, and has UTC as its time zone, so that a driver's wall clocks are those of the database.

Each set of jars has a class loader of its own: two connectors may use two versions of a driver.
Drivers are found as `java.sql.DriverManager` finds them, by `META-INF/services/java.sql.Driver`,
or named by `penstock.jdbc.driver.class`.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import os
import sys
import threading
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from penstock.api import ConfigInvalid, PenstockError
from penstock.connectors.jdbc.columns import ARROW, Sql, clock_shift
from penstock.connectors.jdbc.database import (
    Connection,
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    Parameters,
    Row,
    RowRefused,
    told_otherwise,
)
from penstock.connectors.jdbc.reading import BLOCK_ROWS
from penstock.connectors.jdbc.url import Url

JARS: Final = "penstock.jdbc.driver.jars"
CLASS: Final = "penstock.jdbc.driver.class"
HEAP: Final = "512m"

_BLOCK_BYTES: Final = 1 << 24
_SERVICE: Final = "META-INF/services/java.sql.Driver"
_LOGIN_S: Final = 30


# ── jars ─────────────────────────────────────────────────────────────────────────────────────────


def jars_of(listed: Sequence[str], class_path: str | None = None) -> list[str]:
    """The jars that a list of files, folders and `folder/*` means, or else those that the class
    path (by default `CLASSPATH`) has. What is relative is also looked for in the folders of
    `sys.path`, where Spark puts the files that it distributes (`spark.files`)."""
    entries = list(listed)
    if not entries:
        entries = (os.environ.get("CLASSPATH", "") if class_path is None else class_path).split(
            os.pathsep
        )
    return list(dict.fromkeys(jar for entry in entries if entry for jar in _jars_at(entry.strip())))


def _jars_at(entry: str) -> list[str]:
    folders = [""] if os.path.isabs(entry) else ["", *sys.path]
    for folder in folders:
        place = Path(folder, entry)
        if place.is_file():
            return [os.path.abspath(place)]
        if place.is_dir():
            place /= "*"
        if place.name == "*":
            found = sorted(glob.glob(f"{place}.[jJ][aA][rR]"))
            if found:
                return [os.path.abspath(each) for each in found]
    return []


def problem(url: Url) -> tuple[str, str] | None:
    """What is missing to use a driver, as far as files tell: the setting, and what to do."""
    listed = _listed(url)
    absent = [entry for entry in listed if not _jars_at(entry)]
    if absent:
        return JARS, f"there is no jar at {', '.join(absent)}"
    found = jars_of(listed)
    if named := str(url.options.get("class", "")):
        if not any(_has(jar, f"{named.replace('.', '/')}.class") for jar in found):
            return CLASS, f"there is no class '{named}' in {_said(found)}"
    elif not any(_has(jar, _SERVICE) for jar in found):
        where = "none of these jars has one" if listed else "no jar with one is in CLASSPATH"
        return "connection.url", (
            f"'{url.shown}' needs a JDBC driver, and {where}; name the driver's jar in {JARS}"
        )
    if find_spec("jpype") is None:
        return "connection.url", (
            f"'{url.shown}' needs JPype to run its JDBC driver: run 'pip install JPype1'"
        )
    return None


def _listed(url: Url) -> list[str]:
    return [each for each in str(url.options.get("jars", "")).split(",") if each]


def _has(jar: str, name: str) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            archive.getinfo(name)
    except (OSError, KeyError, zipfile.BadZipFile):
        return False
    return True


# ── the JVM ──────────────────────────────────────────────────────────────────────────────────────

_starting = threading.Lock()
_process: int | None = None  # which one the JVM is in


def _java() -> Any:
    """JPype, with a JVM running. ConfigInvalid says what is missing."""
    global _process
    try:
        import jpype
        import jpype.config
    except ImportError as error:
        raise ConfigInvalid(
            [f"a JDBC driver needs JPype, which cannot be imported ({error}): install JPype1"]
        ) from error
    with _starting:
        if _process == os.getpid():
            return jpype
        if _process is not None:
            raise PenstockError("This process was forked from one with a JVM, which it cannot use.")
        jpype.config.onexit = False  # it would wait for a driver's threads to end
        options = ["-Xrs", "-Xms16m", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-Duser.timezone=UTC"]
        try:
            if not jpype.isJVMStarted():
                jpype.startJVM(*options, classpath=[], convertStrings=False, interrupt=False)
        except (jpype.JVMNotFoundException, jpype.JVMNotSupportedException, OSError) as error:
            raise ConfigInvalid(
                [f"no JVM can be started for the JDBC driver; is JAVA_HOME set? {error}"]
            ) from error
        _process = os.getpid()
        atexit.register(_leave_python, jpype)
        # Another part of the process may have started it with other options.
        jpype.JClass("java.util.TimeZone").setDefault(
            jpype.JClass("java.util.TimeZone").getTimeZone("UTC")
        )
    return jpype


def _leave_python(jpype: Any) -> None:
    """At the end of the process: nothing in the JVM calls Python from now on. JPype's thread that
    gives up Python's objects would be ended inside Java, which aborts the process."""
    if _process != os.getpid():
        return  # a fork, to which the JVM did not come along
    jpype.JClass("org.jpype.ref.JPypeReferenceQueue").getInstance().stop()


@cache
def _compiled() -> Any:
    """`Rows.java`, compiled by Janino, which Spark has among its jars."""
    jpype = _java()
    loader = _loader(tuple(_compiler_jars()))
    compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler", loader=loader)()
    # A thread that Python began has no class loader of its own to take for it.
    compiler.setParentClassLoader(loader)
    compiler.cook(resources.files(__package__).joinpath("Rows.java").read_text())
    return compiler.getClassLoader()


def _rows(name: str) -> Any:
    jpype = _java()
    return jpype.JClass(f"penstock.Rows${name}", loader=_compiled())


def _compiler_jars() -> list[str]:
    spec = find_spec("pyspark")
    places = [*(spec.submodule_search_locations or ())] if spec else []
    if spark := os.environ.get("SPARK_HOME"):
        places.append(spark)
    for place in places:
        found = [glob.glob(f"{place}/jars/{name}-*.jar") for name in ("janino", "commons-compiler")]
        if all(found):
            return [each for each, *_ in found]
    raise ConfigInvalid(
        ["the jars of Spark, which a JDBC driver's rows are read with, are not in "
         f"{' or '.join(f'{place}/jars' for place in places) or 'any known place'}; set SPARK_HOME"]
    )  # fmt: skip


@cache
def _loader(jars: tuple[str, ...]) -> Any:
    jpype = _java()
    uris = [jpype.JClass("java.io.File")(jar).toURI().toURL() for jar in jars]
    urls = jpype.JArray(jpype.JClass("java.net.URL"))(uris)
    return jpype.JClass("java.net.URLClassLoader")(urls)


def _driver(url: Url, address: str) -> tuple[Any, Any]:
    """The driver for an address, and its class loader."""
    jpype = _java()
    jars = jars_of(_listed(url))
    loader = _loader(tuple(jars))
    named = str(url.options.get("class", ""))
    if named:
        try:
            driver = jpype.JClass(named, loader=loader)()
        except (TypeError, jpype.JException) as error:
            raise ConfigInvalid(
                [f"{CLASS}: there is no class '{named}' to be had from {_said(jars)} ({error})"]
            ) from error
        if not isinstance(driver, jpype.JClass("java.sql.Driver")):
            raise ConfigInvalid([f"{CLASS}: '{named}' is no JDBC driver"])
        return driver, loader
    found = jpype.JClass("java.util.ServiceLoader").load(jpype.JClass("java.sql.Driver"), loader)
    offered = found.iterator()
    while True:
        try:
            if not offered.hasNext():
                break
            driver = offered.next()
            if driver.acceptsURL(address):
                return driver, loader
        except jpype.JException:
            continue  # one that lacks what it needs is not in the way of the others
    raise ConfigInvalid(
        [
            f"no JDBC driver for '{url.shown}' (connection.url) is in {_said(jars)}; name its jar "
            f"in {JARS}, and its class in {CLASS} if the jar does not say it"
        ]
    )


def _said(jars: Sequence[str]) -> str:
    return ", ".join(Path(jar).name for jar in jars) if jars else "CLASSPATH"


# ── types ────────────────────────────────────────────────────────────────────────────────────────

TYPES: Final[dict[int, tuple[Sql, str]]] = {
    # java.sql.Types: what the column is to us, and how `Rows.java` reads it.
    -7: (Sql.BIT, "l"),
    16: (Sql.BOOLEAN, "l"),
    -6: (Sql.TINYINT, "l"),
    5: (Sql.SMALLINT, "l"),
    4: (Sql.INTEGER, "l"),
    -5: (Sql.BIGINT, "l"),
    7: (Sql.REAL, "d"),
    6: (Sql.DOUBLE, "d"),
    8: (Sql.DOUBLE, "d"),
    2: (Sql.NUMERIC, "n"),
    3: (Sql.DECIMAL, "n"),
    1: (Sql.STRING, "s"),
    12: (Sql.STRING, "s"),
    -1: (Sql.STRING, "s"),
    -15: (Sql.STRING, "s"),
    -9: (Sql.STRING, "s"),
    -16: (Sql.STRING, "s"),
    70: (Sql.STRING, "s"),  # DATALINK
    2005: (Sql.STRING, "c"),
    2011: (Sql.STRING, "c"),
    2009: (Sql.STRING, "x"),
    -2: (Sql.BYTES, "b"),
    -3: (Sql.BYTES, "b"),
    -4: (Sql.BYTES, "b"),
    2004: (Sql.BYTES, "B"),
    91: (Sql.DATE, "D"),
    92: (Sql.TIME, "T"),
    2013: (Sql.TIME, "Z"),
    93: (Sql.TIMESTAMP, "M"),
    2014: (Sql.TIMESTAMP, "M"),
    # Of single databases.
    100: (Sql.REAL, "d"),  # Oracle's BINARY_FLOAT
    101: (Sql.DOUBLE, "d"),  # BINARY_DOUBLE
    -101: (Sql.TIMESTAMP, "M"),  # TIMESTAMP WITH TIME ZONE
    -102: (Sql.TIMESTAMP, "M"),  # WITH LOCAL TIME ZONE
    -155: (Sql.TIMESTAMP, "M"),  # SQL Server's DATETIMEOFFSET
}
ZONED: Final = frozenset({2013, 2014, -101, -102, -155})
_OTHERWISE: Final = (Sql.STRING, "s")


# ── connections ──────────────────────────────────────────────────────────────────────────────────


def open_driver(url: Url) -> Any:
    """A connection of the driver's own; raises what the driver raises. Besides what the settings
    say, options of the URL may be `login_s` and `statement_s`: how long these may take."""
    assert url.address is not None
    jpype = _java()
    driver, loader = _driver(url, url.address.value)
    properties = jpype.JClass("java.util.Properties")()
    if url.user is not None:
        properties.setProperty("user", url.user)
    if url.password is not None:
        properties.setProperty("password", url.password.value)
    limit_s = int(url.options.get("login_s", _LOGIN_S))
    jpype.JClass("java.sql.DriverManager").setLoginTimeout(limit_s)  # which drivers ask for
    thread = jpype.JClass("java.lang.Thread").currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)  # where drivers look for parts of their own
    try:
        raw = driver.connect(url.address.value, properties)
    finally:
        thread.setContextClassLoader(before or loader)  # threads of Python have none
    if raw is None:
        raise ConfigInvalid([f"{CLASS}: this driver is not for '{url.shown}' (connection.url)"])
    return raw


@contextlib.contextmanager
def _closing(closable: Any) -> Iterator[Any]:
    try:
        yield closable
    finally:
        with contextlib.suppress(Exception):
            closable.close()


class DriverConnection(Connection):
    """A connection of a JDBC driver. Statements have `?` for parameters."""

    @property
    def placeholder(self) -> str:
        return "?"

    @property
    def is_open(self) -> bool:
        if self.raw is None:
            return False
        with contextlib.suppress(Exception):
            return not self.raw.isClosed()
        return False

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        with self.errors():
            if parameters:
                with _closing(self.raw.prepareStatement(sql)) as statement:
                    self._bind(statement, parameters)
                    return int(statement.executeUpdate())
            with _closing(self.raw.createStatement()) as statement:
                self._bound(statement)
                statement.execute(sql)
                return int(statement.getUpdateCount())

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return [row for rows in self.stream(sql, parameters) for row in rows]

    def first(self, sql: str, skipped: int = 0) -> list[Row]:
        """The first row of a query after so many that are skipped, in a list; or none. The rest is
        not asked for."""
        with self.errors(), self._result(sql, (), most=skipped + 1) as result:
            return [row for rows in _tuples(result, _kinds(result), 1, skipped) for row in rows]

    def stream(
        self, sql: str, parameters: Parameters = (), size: int = BLOCK_ROWS
    ) -> Iterator[list[Row]]:
        with self.errors(), self._result(sql, parameters) as result:
            yield from _tuples(result, _kinds(result), size)

    def blocks(self, sql: str, most: int = 0) -> Iterator[list[pa.Array]]:
        """The columns of a query, some thousand rows at a time; `most`: not more than so many in
        all."""
        size = min(most, BLOCK_ROWS) or BLOCK_ROWS
        with self.errors(), self._result(sql, (), most=most) as result:
            yield from _blocks(result, _kinds(result), size)

    @contextlib.contextmanager
    def described(self, sql: str) -> Iterator[Any]:
        """The driver's `ResultSetMetaData` of a query, to be used within `errors`."""
        with self._result(sql, ()) as result:
            yield result.getMetaData()

    def many(self, sql: str, rows: Iterable[Parameters]) -> None:
        columns = [list(cells) for cells in zip(*rows, strict=True)]
        if columns:
            Batch(columns, [0] * len(columns), "UTC").run(self, sql, range(len(columns)))

    @contextlib.contextmanager
    def transaction(self, *, isolation: str = "", writing: bool = True) -> Iterator[None]:
        with self.errors():
            before = self.raw.getTransactionIsolation()
            if isolation:
                self.raw.setTransactionIsolation(LEVELS[isolation.upper()])
            self.raw.setAutoCommit(False)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is what is told
                self.raw.rollback()
                self._leave(isolation, before)
            raise
        with self.errors():
            self.raw.commit()
            self._leave(isolation, before)

    def _leave(self, isolation: str, before: int) -> None:
        self.raw.setAutoCommit(True)
        if isolation:
            self.raw.setTransactionIsolation(before)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        with self.errors():
            point = self.raw.setSavepoint()
        try:
            yield
        except RowRefused:
            with self.errors():
                self.raw.rollback(point)
            raise
        with contextlib.suppress(Exception):  # Oracle has no such thing, and needs none
            self.raw.releaseSavepoint(point)

    def quotes(self) -> tuple[str, str]:
        """What opens and closes names, as the driver says it; nothing does, if it says a blank."""
        with self.errors():
            mark = str(self.raw.getMetaData().getIdentifierQuoteString()).strip()
        return mark, mark

    def isolate(self, level: str) -> None:
        """Has further transactions run in that level, in SQL's words."""
        with self.errors():
            self.raw.setTransactionIsolation(LEVELS[level])

    def close(self) -> None:
        raw, self.raw = self.raw, None
        if raw is not None:
            with contextlib.suppress(Exception):
                raw.close()

    @contextlib.contextmanager
    def _result(self, sql: str, parameters: Parameters, most: int = 0) -> Iterator[Any]:
        prepared = self.raw.prepareStatement(sql) if parameters else self.raw.createStatement()
        with _closing(prepared) as statement:
            with contextlib.suppress(Exception):  # a wish, which drivers may not know
                statement.setFetchSize(min(most, BLOCK_ROWS) or BLOCK_ROWS)
            if most:
                statement.setMaxRows(most)
            self._bound(statement)
            if parameters:
                self._bind(statement, parameters)
                result = statement.executeQuery()
            else:
                result = statement.executeQuery(sql)
            with _closing(result):
                yield result

    def _bound(self, statement: Any) -> None:
        if limit_s := int(self.url.options.get("statement_s", 0)):
            statement.setQueryTimeout(limit_s)

    def _bind(self, statement: Any, parameters: Parameters) -> None:
        for place, value in enumerate(parameters, 1):
            match value:
                case None:
                    statement.setObject(place, None)
                case bool():
                    statement.setBoolean(place, value)
                case int():
                    statement.setLong(place, value)
                case float():
                    statement.setDouble(place, value)
                case _:
                    statement.setString(place, str(value))


LEVELS: Final = {
    "READ UNCOMMITTED": 1,
    "READ COMMITTED": 2,
    "REPEATABLE READ": 4,
    "SERIALIZABLE": 8,
    "SQL SERVER SNAPSHOT": 4096,
}


BASE_TABLE: Final = "BASE TABLE"  # what some drivers call TABLE


def metadata(result: Any, places: Sequence[int]) -> list[tuple[Any, ...]]:
    """These columns of what the driver tells about tables, as texts; None for those it does not
    have. The result is closed."""
    found = []
    with _closing(result):
        width = int(result.getMetaData().getColumnCount())
        while result.next():
            cells = [result.getString(at) if at <= width else None for at in places]
            found.append(tuple(None if cell is None else str(cell) for cell in cells))
    return found


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _kinds(result: Any) -> list[tuple[Sql, str]]:
    about = result.getMetaData()
    return [
        TYPES.get(int(about.getColumnType(at)), _OTHERWISE)
        for at in range(1, int(about.getColumnCount()) + 1)
    ]


def _tuples(
    result: Any, kinds: Sequence[tuple[Sql, str]], size: int, skipped: int = 0
) -> Iterator[list[Row]]:
    for cells in _blocks(result, kinds, size, skipped):
        columns = [
            [None if text is None else Decimal(text) for text in each.to_pylist()]
            if letter == "n"
            else each.to_pylist()
            for each, (_, letter) in zip(cells, kinds, strict=True)
        ]
        yield list(zip(*columns, strict=True))


def _blocks(
    result: Any, kinds: Sequence[tuple[Sql, str]], size: int, skipped: int = 0
) -> Iterator[list[pa.Array]]:
    reader = _rows("Reader")(result, "".join(letter for _, letter in kinds), size)
    if not reader.skip(skipped):
        return
    while count := int(reader.fill(_BLOCK_BYTES)):
        yield [_array(reader, at, count, *kind) for at, kind in enumerate(kinds)]


def _array(reader: Any, at: int, count: int, sql_type: Sql, letter: str) -> pa.Array:
    nulls = int(reader.nulls[at])
    valid = pa.py_buffer(bytes(memoryview(reader.valid[at]))) if nulls else None
    wanted = ARROW[sql_type]
    if letter in "nscxbB":
        ends = np.array(reader.ends[at])[: count + 1]
        data = np.array(reader.bytes[at])[: ends[-1]]
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(wanted, count, buffers, nulls)
    if letter == "d":
        cells = np.array(reader.fractions[at])[:count]
        return pa.Array.from_buffers(pa.float64(), count, [valid, pa.py_buffer(cells)], nulls)
    cells = np.array(reader.numbers[at])[:count]
    found = pa.Array.from_buffers(pa.int64(), count, [valid, pa.py_buffer(cells)], nulls)
    if wanted == pa.int64():
        return found
    return found.cast(pa.int32()).cast(wanted) if sql_type is Sql.DATE else found.cast(wanted)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


class Batch:
    """Rows, by column, to run statements for. Cells of one column are of one kind; `types` are
    those of java.sql.Types that the columns have (0: not known), and `zone` is the one in which
    moments are written to columns without one."""

    def __init__(self, columns: Sequence[Sequence[Any]], types: Sequence[int], zone: str) -> None:
        self.count = len(columns[0])
        self._cells = [
            # A column with a zone holds instants: it is not asked what `zone` makes of them.
            written(cells, "UTC" if known in ZONED else zone)
            for known, cells in zip(types, columns, strict=True)
        ]
        self._types = [
            known or _NULLS[letter] for known, (letter, _) in zip(types, self._cells, strict=True)
        ]

    def run(
        self,
        connection: DriverConnection,
        sql: str,
        order: Iterable[int],
        rows: Sequence[int] | None = None,
        *,
        counted: bool = False,
    ) -> list[int]:
        """Runs a statement for all rows, or for these; `order` are the columns its parameters
        stand for. How many rows each run changed: -2 where the driver does not tell, which never
        is so with `counted`."""
        jpype = _java()
        integers = jpype.JArray(jpype.JInt)
        chosen = integers(list(range(self.count) if rows is None else rows))
        places = integers(list(order))
        with connection.errors():
            found = self._run(connection, sql, chosen, places, singly=False)
            if counted and any(each < 0 for each in found):
                # What was run before is run again, which changes nothing more.
                found = self._run(connection, sql, chosen, places, singly=True)
        return found

    def _run(
        self, connection: DriverConnection, sql: str, rows: Any, order: Any, *, singly: bool
    ) -> list[int]:
        jpype = _java()
        with _closing(connection.raw.prepareStatement(sql)) as statement:
            letters = "".join(letter for letter, _ in self._cells)
            types = jpype.JArray(jpype.JInt)(self._types)
            writer = _rows("Writer")(statement, letters, types)
            for at, (letter, cells) in enumerate(self._cells):
                _hand_over(jpype, writer, at, letter, cells)
            changed = writer.runSingly(rows, order) if singly else writer.run(rows, order)
            return [int(each) for each in np.array(changed)]


_DAY_US: Final = 86_400_000_000
_NULLS: Final = {
    "l": -5, "z": 16, "d": 8, "n": 2, "s": 12, "b": -3, "D": 91, "T": 92, "M": 93,
}  # fmt: skip
_LETTERS: Final = (
    (pa.types.is_boolean, "z", pa.int64()),
    (pa.types.is_integer, "l", pa.int64()),
    (pa.types.is_floating, "d", pa.float64()),
    (pa.types.is_decimal, "n", None),
    (pa.types.is_string, "s", pa.string()),
    (pa.types.is_binary, "b", pa.binary()),
    (pa.types.is_date, "D", pa.int64()),
    (pa.types.is_time, "T", pa.int64()),
    (pa.types.is_timestamp, "M", pa.int64()),
)


def written(cells: Sequence[Any], zone: str) -> tuple[str, pa.Array]:
    """The letter of a column's kind, and its cells as Arrow's; moments as a clock in `zone` shows
    them.

    >>> from datetime import UTC, datetime
    >>> written([datetime(1970, 1, 1, tzinfo=UTC), None], "Etc/GMT-2")[1].to_pylist()
    [7200000000, None]
    """
    found = pa.array(cells)
    if pa.types.is_null(found.type):
        return "s", found.cast(pa.string())
    for is_such, letter, wanted in _LETTERS:
        if not is_such(found.type):
            continue
        if letter == "n":
            texts = [None if cell is None else format(cell, "f") for cell in cells]
            return letter, pa.array(texts, pa.string())
        if letter == "T":
            return letter, _clock(found.cast(pa.time64("us")).cast(wanted), zone)
        if letter == "M":
            found = found.cast(pa.timestamp("us", found.type.tz))
            if found.type.tz is not None and zone != "UTC":
                import pyarrow.compute as pc  # a worker's start does not wait for it

                found = pc.local_timestamp(found.cast(pa.timestamp("us", zone)))
            return letter, found.cast(wanted)
        if letter == "D":
            return letter, found.cast(pa.date32()).cast(pa.int32()).cast(wanted)
        return letter, found.cast(wanted)
    raise RowRefused(f"{found.type} is nothing that a column holds")


def _clock(cells: pa.Array, zone: str) -> pa.Array:
    """Times in UTC as those of a clock in the zone."""
    shift = clock_shift(ZoneInfo(zone)) // timedelta(microseconds=1)
    if not shift:
        return cells
    moved = [None if each is None else (each + shift) % _DAY_US for each in cells.to_pylist()]
    return pa.array(moved, pa.int64())


def _hand_over(jpype: Any, writer: Any, at: int, letter: str, cells: pa.Array) -> None:
    valid = None
    if cells.null_count:
        bits = np.packbits(cells.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        valid = jpype.JArray(jpype.JByte)(bits.view(np.int8))
    if letter in "nsb":
        _, ends, data = cells.buffers()
        offsets = np.frombuffer(ends, np.int32)[cells.offset : cells.offset + len(cells) + 1]
        start, stop = int(offsets[0]), int(offsets[-1])
        held = np.frombuffer(data, np.int8)[start:stop] if data is not None else np.empty(0, "i1")
        writer.bytes(
            at,
            valid,
            jpype.JArray(jpype.JInt)(offsets - start),
            jpype.JArray(jpype.JByte)(held),
        )
        return
    values = cells.fill_null(0).to_numpy(zero_copy_only=False)
    if letter == "d":
        writer.fractions(at, valid, jpype.JArray(jpype.JDouble)(values))
    else:
        writer.numbers(at, valid, jpype.JArray(jpype.JLong)(values))


# ── what errors mean ─────────────────────────────────────────────────────────────────────────────

_AWAY: Final = ("08", "53", "57", "58", "90067", "90098", "90121", "90135")
"""Connection, resources, an operator's intervention, the system; what H2 says of a connection that
broke and of a database that is closed."""
_BUSY: Final = ("40", "HYT00", "HYT01", "55P03", "57014", "57033")
"""Conflicts and deadlocks, locks that were not given in time, statements that took too long."""
_ROW: Final = ("22", "23", "44")
_REFUSED: Final = ("28", "3D", "90146", "90149")
"""A login, and a database that there is not (the numbers are H2's)."""
_BY_CLASS: Final = (
    ("SQLNonTransientConnectionException", DatabaseAway),
    ("SQLTransientConnectionException", DatabaseAway),
    ("SQLRecoverableException", DatabaseAway),
    ("SQLTransactionRollbackException", DatabaseBusy),
    ("SQLTimeoutException", DatabaseBusy),
    ("SQLTransientException", DatabaseBusy),
    ("SQLDataException", RowRefused),
    ("SQLIntegrityConstraintViolationException", RowRefused),
)
"""The classes of JDBC 4 that say it, for states that do not."""


def told_by_driver(error: Exception) -> PenstockError:
    """The error of ours that says what a driver's exception means: by its SQLState, or else by its
    class."""
    import jpype

    if not isinstance(error, jpype.JException):
        if isinstance(error, pa.ArrowException):
            return RowRefused(str(error))  # cells that are of several kinds, or of none
        return told_otherwise(error)
    if not isinstance(error, jpype.JClass("java.sql.SQLException")):
        return DatabaseRefused(f"{error.getClass().getName()}: {error.getMessage()}")
    failed: Any = error
    following = failed.getNextException()
    if isinstance(error, jpype.JClass("java.sql.BatchUpdateException")) and following is not None:
        failed = following  # what happened; the outer one says only that something did
    state = str(failed.getSQLState() or "")
    text = " ".join(str(failed.getMessage()).split())
    text = f"{text} (SQLSTATE {state})" if state else text
    return meaning(state, [each.getName() for each in _classes(jpype, failed)])(text)


def _classes(jpype: Any, error: Any) -> Iterator[Any]:
    kind = error.getClass()
    while kind is not None:
        yield kind
        kind = kind.getSuperclass()


def meaning(state: str, classes: Iterable[object]) -> type[PenstockError]:
    """What an SQLState means, or else the class of an exception, whose ancestors follow it.

    >>> meaning("23505", ()).__name__
    'RowRefused'
    """
    for states, found in (
        (_REFUSED, DatabaseRefused),
        (_BUSY, DatabaseBusy),  # two of its states are of a class of the next
        (_AWAY, DatabaseAway),
        (_ROW, RowRefused),
    ):
        if state.startswith(states):
            return found
    names = {str(each).rpartition(".")[2] for each in classes}
    return next((found for name, found in _BY_CLASS if name in names), DatabaseRefused)
