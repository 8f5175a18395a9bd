"""The settings of both source and sink: the database, its driver, and the form of statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.api import ConfigInvalid
from penstock.api.settings import (
    HIGH,
    LOW,
    REQUIRED,
    Config,
    Group,
    Rule,
    Secret,
    checking,
    text,
)
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.jvm.jars import CLASS, JARS, problem
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.drivers.products import DIALECT_NAMES
from penstock.connectors.jdbc.drivers.url import Kind, Url, parse

# fmt: off
CONNECTION: Final = Group("Connection", importance=LOW)
CONNECTION_URL: Final = CONNECTION.text("connection.url", REQUIRED,
    "JDBC URL of the database: jdbc:postgresql:, jdbc:mysql:, jdbc:mariadb: or jdbc:sqlite:. Any "
    "other database needs its JDBC driver, see `penstock.jdbc.driver.jars`.", importance=HIGH)
CONNECTION_USER: Final = CONNECTION.text("connection.user", None,
    "User to connect as; overrides the one in the URL.", importance=HIGH)
CONNECTION_PASSWORD: Final = CONNECTION.secret("connection.password", None,
    "Password to connect with; overrides the one in the URL.", importance=HIGH)
CONNECTION_ATTEMPTS: Final = CONNECTION.number("connection.attempts", 3,
    "Maximum number of attempts to connect.", at_least=1)
CONNECTION_BACKOFF_MS: Final = CONNECTION.number("connection.backoff.ms", 10_000,
    "Milliseconds between two attempts to connect.", at_least=0)
DIALECTS: Final = (
    *(kind.value for kind in (Kind.POSTGRESQL, Kind.MYSQL, Kind.SQLITE)),
    *DIALECT_NAMES,
)
DIALECT_NAME: Final = CONNECTION.choice("dialect.name", "", ("", *DIALECTS),
    "The database's dialect. By default, that of the URL.")
DRIVER_JARS: Final = CONNECTION.listing(JARS, (),
    "Jars with the JDBC driver of a database other than PostgreSQL, MySQL, MariaDB and SQLite: "
    "files, folders or `folder/*`, on every machine that runs tasks. By default, those listed in "
    "the environment variable CLASSPATH.")
DRIVER_CLASS: Final = CONNECTION.text(CLASS, "",
    "The class of that driver, if its jar does not declare it.")


def _foreign_provider(name: str | None) -> str | None:
    if not name or name.rpartition(".")[2] == "DefaultJdbcCredentialsProvider":
        return None
    return (
        "JVM classes are not supported; remove the setting and have a config provider look up user "
        "and password, as in ${file:/etc/penstock/db.properties:password}"
    )


CREDENTIALS_PROVIDER: Final = CONNECTION.text("jdbc.credentials.provider.class", "",
    "Where user and password come from. Only the default provider is supported, which uses "
    "`connection.user` and `connection.password`.",
    check=checking("DefaultJdbcCredentialsProvider", _foreign_provider))

QUOTING: Final = Group()
QUOTE_SQL_IDENTIFIERS: Final = QUOTING.choice(
    "quote.sql.identifiers", "always", ("always", "never"),
    "When to quote the names of tables and columns in statements.", ignore_case=True)
SQL_QUOTE_IDENTIFIERS: Final = QUOTING.flag("sql.quote.identifiers", True,
    "Aiven's name for `quote.sql.identifiers`: false is `never`.", importance=LOW)


def _bad_zone(value: str | None) -> str | None:
    try:
        zone(value or "")
    except ValueError:
        return "Invalid time zone identifier"
    return None


_ZONE_CHECK: Final = checking("valid time zone identifier", _bad_zone)
DB_TIMEZONE: Final = text("db.timezone", "UTC",
    "The time zone for reading and writing date and time columns without one.", check=_ZONE_CHECK)
# fmt: on


def database_of(config: Config) -> Database:
    """The database of a configuration; raises ConfigInvalid for a URL that cannot be used."""
    url = parse(config[CONNECTION_URL], config[CONNECTION_USER], config[CONNECTION_PASSWORD])
    if url.kind is Kind.OTHER:
        url = _with_driver(
            url,
            config[DRIVER_JARS],
            config[DRIVER_CLASS],
            config[DIALECT_NAME],
        )
    return Database(url, config[CONNECTION_ATTEMPTS], config[CONNECTION_BACKOFF_MS])


def _with_driver(url: Url, jars: Sequence[str], class_name: str, dialect: str) -> Url:
    return replace(url, options={"jars": ",".join(jars), "class": class_name, "dialect": dialect})


def quotes(config: Config) -> bool:
    """Whether to quote names."""
    return config[SQL_QUOTE_IDENTIFIERS] and config[QUOTE_SQL_IDENTIFIERS].lower() == "always"


def url_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Reports a URL that cannot be used, and a dialect that is not the URL's."""
    text, user, password = (
        parsed.get(key.name) for key in (CONNECTION_URL, CONNECTION_USER, CONNECTION_PASSWORD)
    )
    if not isinstance(text, str):
        return
    try:
        url = parse(
            text,
            user if isinstance(user, str) else None,
            password if isinstance(password, Secret) else None,
        )
    except ConfigInvalid as error:
        yield CONNECTION_URL.name, str(error)
        return
    dialect = parsed.get(DIALECT_NAME.name)
    if url.kind is Kind.OTHER:
        if dialect and dialect not in DIALECT_NAMES:
            yield (
                DIALECT_NAME.name,
                f"dialect.name={dialect} does not match this URL; remove it or set one of "
                f"{', '.join(DIALECT_NAMES)}",
            )
        jars, class_name = parsed.get(DRIVER_JARS.name), parsed.get(DRIVER_CLASS.name)
        listed = jars if isinstance(jars, tuple) else ()
        driver_problem = problem(_with_driver(url, listed, str(class_name or ""), ""))
        if driver_problem is not None:
            setting, text = driver_problem
            yield setting, f"Invalid value for configuration {setting}: {text}"
        return
    if dialect and dialect != url.kind.value:
        yield (
            DIALECT_NAME.name,
            f"dialect.name={dialect} does not match this URL; remove it or set {url.kind.value}",
        )


RULES: Final[tuple[Rule, ...]] = (url_rule,)
