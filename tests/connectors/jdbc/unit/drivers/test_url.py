"""What JDBC URLs mean to drivers."""

from __future__ import annotations

import pytest

from penstock.config.define import Secret
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.drivers.properties import ACTING, REFUSED
from penstock.connectors.jdbc.drivers.url import Kind, Url, UrlInvalid, parse

PLACES = [
    ("jdbc:postgresql://db/shop", Kind.POSTGRESQL, (("db", 5432),), "shop"),
    ("jdbc:postgresql://db:5433/shop?x=y", Kind.POSTGRESQL, (("db", 5433),), "shop"),
    ("jdbc:postgresql:shop", Kind.POSTGRESQL, (("localhost", 5432),), "shop"),
    ("jdbc:postgresql://a:1,b/s%20p", Kind.POSTGRESQL, (("a", 1), ("b", 5432)), "s p"),
    ("jdbc:postgresql://[::1]:7/shop", Kind.POSTGRESQL, (("::1", 7),), "shop"),
    ("JDBC:PostgreSQL://db/?user=me", Kind.POSTGRESQL, (("db", 5432),), "me"),
    ("jdbc:mysql://db/shop", Kind.MYSQL, (("db", 3306),), "shop"),
    ("jdbc:mysql:loadbalance://a,b:1/shop", Kind.MYSQL, (("a", 3306), ("b", 1)), "shop"),
    ("jdbc:mysql://address=(host=a)(port=9)/s", Kind.MYSQL, (("a", 9),), "s"),
    ("jdbc:mariadb://db:3307/", Kind.MYSQL, (("db", 3307),), ""),
    ("jdbc:sqlite:/tmp/a.db?journal_mode=WAL", Kind.SQLITE, (), "/tmp/a.db"),
    ("jdbc:sqlite:a.db", Kind.SQLITE, (), "a.db"),
    ("jdbc:sqlite:file:a.db?mode=ro&busy_timeout=1", Kind.SQLITE, (), "file:a.db?mode=ro"),
]


@pytest.mark.parametrize(("text", "kind", "hosts", "database"), PLACES)
def test_a_url_says_where_the_database_is(
    text: str, kind: Kind, hosts: tuple[tuple[str, int], ...], database: str
) -> None:
    url = parse(text)
    assert (url.kind, url.hosts, url.database) == (kind, hosts, database)


OPTIONS: list[tuple[str, dict[str, str | int | bool]]] = [
    ("jdbc:postgresql://h/d?ssl=true", {"sslmode": "verify-full"}),
    ("jdbc:postgresql://h/d?ssl", {"sslmode": "verify-full"}),
    ("jdbc:postgresql://h/d?ssl=true&sslmode=require", {"sslmode": "require"}),
    ("jdbc:postgresql://h/d?gssEncMode=allow", {"gssencmode": "prefer"}),
    ("jdbc:postgresql://h/d?gssEncMode=require", {"gssencmode": "require"}),
    ("jdbc:postgresql://h/d?sslrootcert=%2Fca.pem", {"sslrootcert": "/ca.pem"}),
    ("jdbc:postgresql://h/d?currentSchema=a,b", {"options": "-c search_path=a,b"}),
    ("jdbc:postgresql://h/d?currentSchema=a%20b", {"options": "-c search_path=a\\ b"}),
    ("jdbc:postgresql://h/d?targetServerType=primary", {"target_session_attrs": "read-write"}),
    ("jdbc:postgresql://h/d?connectTimeout=3", {"connect_timeout": 3}),
    ("jdbc:postgresql://h/d?connectTimeout=0&loginTimeout=4", {"connect_timeout": 4}),
    ("jdbc:postgresql://h/d", {"connect_timeout": 10}),
    ("jdbc:mysql://h/d", {"ssl": "preferred"}),
    ("jdbc:mysql://h/d?useSSL=false", {"ssl": "disabled"}),
    ("jdbc:mysql://h/d?requireSSL=true", {"ssl": "required"}),
    ("jdbc:mysql://h/d?sslMode=VERIFY_IDENTITY", {"ssl": "verify-full"}),
    ("jdbc:mysql://h/d?connectTimeout=2500", {"connect_timeout": 2}),
    ("jdbc:mysql://h/d?tinyInt1isBit=false", {"tiny_int_is_bit": False}),
    ("jdbc:mysql://h/d?TINYINT1ISBIT=0", {"tiny_int_is_bit": False}),
    ("jdbc:mysql://h/d?transformedBitIsBoolean=true", {"bit_is_boolean": True}),
    ("jdbc:mysql://h/d?yearIsDateType=false", {"year_is_date": False}),
    ("jdbc:mysql://h/d", {"zero_dates": ""}),
    ("jdbc:mariadb://h/d", {"zero_dates": "null"}),
    ("jdbc:mysql://h/d?zeroDateTimeBehavior=convertToNull", {"zero_dates": "null"}),
    ("jdbc:mysql://h/d?zeroDateTimeBehavior=ROUND", {"zero_dates": "round"}),
    ("jdbc:mysql://h/d?connectionTimeZone=Asia/Tokyo", {}),
    (
        "jdbc:mysql://h/d?forceConnectionTimeZoneToSession=true&connectionTimeZone=%2B02:00"
        "&connectionCollation=utf8mb4_bin&sessionVariables=sql_mode=''",
        {"variables": "collation_connection = utf8mb4_bin, time_zone = '+02:00', sql_mode=''"},
    ),
    ("jdbc:mariadb://h/d?timezone=Europe/Paris", {"variables": "time_zone = 'Europe/Paris'"}),
    ("jdbc:mysql://h/d?useUnicode=true&characterEncoding=UTF-8", {"ssl": "preferred"}),
    ("jdbc:postgresql://h/d?stringtype=unspecified", {"connect_timeout": 10}),
    ("jdbc:mariadb://h/d", {"ssl": "disabled"}),
    ("jdbc:mariadb://h/d?useSsl=true", {"ssl": "verify-full"}),
    ("jdbc:mariadb://h/d?sslMode=trust", {"ssl": "required"}),
    ("jdbc:mariadb://h/d?useSsl=true&serverSslCert=/c.pem", {"ssl_ca": "/c.pem"}),
    ("jdbc:sqlite:a.db?foreign_keys=on", {"foreign_keys": "on"}),
]


@pytest.mark.parametrize(("text", "expected"), OPTIONS)
def test_parameters_are_what_the_driver_here_calls_them(
    text: str, expected: dict[str, str | int | bool]
) -> None:
    found = parse(text).options
    assert {name: found.get(name) for name in expected} == expected


def test_a_timeout_of_zero_waits_without_end() -> None:
    assert "connect_timeout" not in parse("jdbc:postgresql://h/d?connectTimeout=0").options


BAD = [
    ("postgresql://h/d", "jdbc:"),
    ("jdbc:oracle", "jdbc:DATABASE:"),
    ("jdbc:postgresql://h:port/d", "not a valid port"),
    ("jdbc:postgresql://h/d?sslkey=/a.pk8", "openssl"),
    ("jdbc:postgresql://h/d?sslmode=maybe", "sslmode 'maybe' is not one of disable, allow"),
    (
        "jdbc:postgresql://h/d?channelBinding=on",
        "channelBinding 'on' is not one of disable, prefer",
    ),
    ("jdbc:postgresql://h/d?gssEncMode=no", "gssEncMode 'no' is not one of disable, allow"),
    ("jdbc:postgresql://h/d?sslNegotiation=x", "sslNegotiation 'x' is not one of postgres, direct"),
    ("jdbc:mysql://h/d?sslKey=k.pem", "name it with sslCert"),
    ("jdbc:postgresql://h/d?targetServerType=best", "targetServerType"),
    ("jdbc:postgresql://h/d?connectTimeout=soon", "connectTimeout"),
    ("jdbc:mysql:h/d", "'//'"),
    ("jdbc:mysql://h/d?sslMode=maybe", "sslMode"),
    ("jdbc:mysql://h/d?trustCertificateKeyStoreUrl=file:a", "serverSslCert"),
    ("jdbc:mysql://h/d?zeroDateTimeBehavior=null", "EXCEPTION, CONVERT_TO_NULL, ROUND"),
    ("jdbc:mysql://h/d?forceConnectionTimeZoneToSession=true", "must name a time zone"),
    ("jdbc:mysql://h/d?connectionCollation=latin1_bin", "utf8mb4"),
    ("jdbc:mysql://h/d?characterencoding=latin1", "characterencoding=latin1: texts are always"),
    ("jdbc:mysql://h/d?maxRows=10", "maxRows=10: rows are never left out"),
    ("jdbc:mysql://h/d?sendFractionalSeconds=false", "sendFractionalSeconds=false"),
    ("jdbc:mysql://h/d?queryInterceptors=a.B", "queryInterceptors=a.B: classes of the JVM"),
    ("jdbc:mariadb://h/d?transactionIsolation=SERIALIZABLE", "transaction.isolation.mode"),
    ("jdbc:mariadb://h/d?initSql=SET%20x=1", "use sessionVariables"),
    ("jdbc:postgresql://h/d?stringtype=text", "varchar or unspecified"),
    ("jdbc:postgresql://h/d?hideUnprivilegedObjects=true", "table.whitelist"),
    ("jdbc:sqlite:a.db?date_class=TEXT", "date_class=TEXT: moments are written as milliseconds"),
    ("jdbc:sqlite:a.db?date_precision=SECONDS", "date_precision=SECONDS"),
    ("jdbc:sqlite::memory:", "memory"),
    ("jdbc:sqlite:", "memory"),
    ("jdbc:sqlite:a.db?journal_mode=WAL;DROP", "journal_mode"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_url_that_cannot_be_used_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(UrlInvalid) as refused:
        parse(text)
    assert said in str(refused.value)
    assert "connection.url" in str(refused.value)


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "mariadb"])
def test_user_and_password_of_the_settings_win_and_neither_is_shown(kind: str) -> None:
    text = f"jdbc:{kind}://h/d?user=one&password=hush"
    url = parse(text)
    assert (url.user, url.password) == ("one", Secret("hush"))
    url = parse(text, "two", Secret("secret"))
    assert (url.user, url.password) == ("two", Secret("secret"))
    assert not {"hush", "secret"} & set(repr(url).replace("'", " ").split())
    assert url.shown.endswith("/d")


def test_mysql_takes_a_login_before_the_host() -> None:
    url = parse("jdbc:mysql://me:p%40ss@h/d")
    assert (url.user, url.password, url.hosts) == ("me", Secret("p@ss"), (("h", 3306),))


@pytest.mark.parametrize(
    ("name", "known"),
    [("UTC", "UTC"), ("Europe/Berlin", "Europe/Berlin"), ("GMT+2", "Etc/GMT-2"),
     ("UTC-05:00", "Etc/GMT+5"), ("+00", "UTC")],
)  # fmt: skip
def test_time_zones_are_named_as_in_java(name: str, known: str) -> None:
    assert zone(name).key == known


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "GMT+25", "GMT+5:30:1", "../etc/passwd"])
def test_an_invalid_time_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="zone"):
        zone(name)


def test_a_url_is_a_value() -> None:
    assert isinstance(parse("jdbc:sqlite:a.db"), Url)
    assert parse("jdbc:sqlite:a.db") == parse("jdbc:sqlite:a.db")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "jdbc:mysql://h/d?rewriteBatchedStatements=true&useSSL=false",
            ("rewriteBatchedStatements",),
        ),
        ("jdbc:postgresql://h/d?TimeZone=UTC&prepareThreshold=0", ("TimeZone", "prepareThreshold")),
        ("jdbc:sqlite:a.db?open_mode=1&busy_timeout=1", ("open_mode",)),
        ("jdbc:mariadb://h/d?usessl=false", ()),
    ],
)
def test_parameters_without_effect_are_known(text: str, names: tuple[str, ...]) -> None:
    assert parse(text).without_effect == names


@pytest.mark.parametrize("scheme", REFUSED)
def test_no_parameter_both_acts_and_is_refused(scheme: str) -> None:
    assert not ACTING[scheme] & REFUSED[scheme].keys()
