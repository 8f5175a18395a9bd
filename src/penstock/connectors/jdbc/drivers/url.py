"""JDBC URLs, and what they say to the drivers that are used here.

    jdbc:postgresql://host:port,host:port/database?currentSchema=s&ssl=true
    jdbc:mysql://host:port/database?sslMode=REQUIRED        jdbc:mariadb://…
    jdbc:sqlite:/path/to/file?busy_timeout=5000             jdbc:sqlite::memory:
    jdbc:anything:else                                      by that database's own JDBC driver

Parameters of the JVM's drivers that change what is stored or how a server is reached are
translated; those that only tune the JVM's driver are ignored; those that would be needed and
cannot be had here (key stores of Java) are refused with what to write instead. User and password
of the URL give way to `connection.user` and `connection.password`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from urllib.parse import unquote

from penstock.api import ConfigInvalid
from penstock.api.settings import Secret


class Kind(Enum):
    """The databases that are reached without the JVM, and all others; the value is
    `dialect.name`'s name of it."""

    POSTGRESQL = "PostgreSqlDatabaseDialect"
    MYSQL = "MySqlDatabaseDialect"
    SQLITE = "SqliteDatabaseDialect"
    OTHER = "GenericDatabaseDialect"


class UrlInvalid(ConfigInvalid):
    """A URL that cannot be used; the message names the setting, and no password."""

    def __init__(self, text: str) -> None:
        super().__init__([f"Invalid value for configuration connection.url: {text}"])


@dataclass(frozen=True, slots=True)
class Url:
    """A database: what it is, where it is, and how its driver is to connect.

    `options` are those of psycopg's or PyMySQL's `connect`, or SQLite's pragmas; `mariadb` tells
    which of the two drivers' meaning the parameters of a MySQL URL have. Of other databases
    `database` is what comes after `jdbc:` and tells the driver, `address` the URL as it was given,
    and `options` what the settings say of the driver.
    """

    kind: Kind
    shown: str  # for messages and logs: without parameters, user and password
    hosts: tuple[tuple[str, int], ...] = ()
    database: str = ""  # SQLite: the file
    user: str | None = None
    password: Secret | None = None
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    mariadb: bool = False
    address: Secret | None = None  # it may hold a password


def parse(text: str, user: str | None = None, password: Secret | None = None) -> Url:
    """What a JDBC URL says; UrlInvalid for one that cannot be used.

    >>> parse("jdbc:postgresql://db/shop?currentSchema=app").options["options"]
    '-c search_path=app'
    >>> parse("jdbc:sqlite:/tmp/shop.db").database
    '/tmp/shop.db'
    """
    text = text.strip()
    if not text.lower().startswith("jdbc:"):
        raise UrlInvalid("a JDBC URL starts with 'jdbc:', such as jdbc:postgresql://host/database")
    scheme, _, rest = text[5:].partition(":")
    match scheme.lower():
        case "postgresql":
            return _postgresql(rest, user, password)
        case "mysql" | "mariadb":
            return _mysql(scheme.lower(), rest, user, password)
        case "sqlite":
            return _sqlite(rest)
    return _other(text, user, password)


_LIBPQ: Final[Mapping[str, str]] = {
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslrootcert": "sslrootcert",
    "sslpassword": "sslpassword",
    "sslNegotiation": "sslnegotiation",
    "ApplicationName": "application_name",
    "channelBinding": "channel_binding",
    "gssEncMode": "gssencmode",
    "kerberosServerName": "krbsrvname",
    "requireAuth": "require_auth",
}
"""Parameters of pgjdbc that are libpq's under another name."""

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslNegotiation": ("postgres", "direct"),
    "channelBinding": ("disable", "prefer", "require"),
    "gssEncMode": ("disable", "allow", "prefer", "require"),
}
_SERVER_TYPES: Final[Mapping[str, str]] = {
    "any": "any",
    "primary": "read-write",
    "master": "read-write",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
    "preferPrimary": "any",  # libpq has none; the order of the hosts is kept
}
_PORT: Final = {Kind.POSTGRESQL: 5432, Kind.MYSQL: 3306}


def _postgresql(rest: str, user: str | None, password: Secret | None) -> Url:
    where, given = _split(rest)
    hosts: tuple[tuple[str, int], ...] = (("localhost", _PORT[Kind.POSTGRESQL]),)
    if where.startswith("//"):
        addresses, _, database = where[2:].partition("/")
        if addresses:
            hosts = _hosts(addresses, _PORT[Kind.POSTGRESQL])
    else:
        database = where.removeprefix("/")
    user = user or given.get("user")
    database = unquote(database) or user or ""
    options: dict[str, str | int | bool] = {
        ours: given[theirs] for theirs, ours in _LIBPQ.items() if theirs in given
    }
    if "sslmode" not in given and given.get("ssl", "false").lower() in ("true", ""):
        options["sslmode"] = "verify-full"  # pgjdbc since 42.2.5
    for name, choices in _CHOICES.items():
        if given.get(name, choices[0]) not in choices:
            raise UrlInvalid(f"{name} '{given[name]}' is none of {', '.join(choices)}")
    if given.get("gssEncMode") == "allow":  # if the server wants it, which libpq does not know
        options["gssencmode"] = "prefer"
    if key := given.get("sslkey"):
        if key.lower().endswith((".pk8", ".p12", ".pfx")):
            raise UrlInvalid(
                f"the key '{key}' that sslkey names has a format of Java; convert it with "
                "'openssl pkcs8 -inform DER -in KEY.pk8 -out KEY.pem' and name the PEM file"
            )
        options["sslkey"] = key
    if servers := given.get("targetServerType"):
        if servers not in _SERVER_TYPES:
            raise UrlInvalid(f"targetServerType '{servers}' is none of {', '.join(_SERVER_TYPES)}")
        options["target_session_attrs"] = _SERVER_TYPES[servers]
    if given.get("loadBalanceHosts", "false").lower() == "true":
        options["load_balance_hosts"] = "random"
    if given.get("tcpKeepAlive", "").lower() in ("true", "false"):
        options["keepalives"] = int(given["tcpKeepAlive"].lower() == "true")
    seconds = _whole(given, "connectTimeout") or _whole(given, "loginTimeout")
    options["connect_timeout"] = seconds or 10  # pgjdbc's default
    if silent := _whole(given, "socketTimeout"):
        options["tcp_user_timeout"] = silent * 1000
    settings = [given["options"]] if "options" in given else []
    if "currentSchema" in given:
        settings.append(f"-c search_path={_escaped(given['currentSchema'])}")
    if given.get("readOnly", "").lower() == "true":
        settings.append("-c default_transaction_read_only=on")
    if settings:
        options["options"] = " ".join(settings)
    return Url(
        Kind.POSTGRESQL,
        f"jdbc:postgresql://{_shown(hosts)}/{database}",
        hosts,
        database,
        user,
        _password(given, password),
        options,
    )


def _escaped(value: str) -> str:
    """A value within libpq's `options`, where blanks part settings."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


_SSL_MODES: Final[Mapping[str, str]] = {
    # Connector/J
    "DISABLED": "disabled",
    "PREFERRED": "preferred",
    "REQUIRED": "required",
    "VERIFY_CA": "verify-ca",
    "VERIFY_IDENTITY": "verify-full",
    # MariaDB's
    "DISABLE": "disabled",
    "TRUST": "required",
    "VERIFY-CA": "verify-ca",
    "VERIFY-FULL": "verify-full",
}
_STORES: Final = (
    "trustCertificateKeyStoreUrl",
    "clientCertificateKeyStoreUrl",
    "keyStore",
    "trustStore",
)


def _mysql(scheme: str, rest: str, user: str | None, password: Secret | None) -> Url:
    where, given = _split(rest)
    mode, slashes, path = where.partition("//")
    if not slashes:
        raise UrlInvalid(f"'//' and a host are missing after 'jdbc:{scheme}:'")
    if mode.strip(":").lower() not in ("", "loadbalance", "replication", "sequential", "failover"):
        raise UrlInvalid(f"'{mode}' before '//' is not known")
    addresses, _, database = path.partition("/")
    if "@" in addresses:
        login, _, addresses = addresses.rpartition("@")
        name, _, secret = login.partition(":")
        given = {"user": unquote(name), "password": unquote(secret), **given}
    port = _PORT[Kind.MYSQL]
    hosts = _hosts(addresses, port) if addresses else (("localhost", port),)
    options: dict[str, str | int | bool] = {"ssl": _mysql_ssl(scheme, given)}
    if stores := [name for name in _STORES if name in given]:
        raise UrlInvalid(
            f"{', '.join(stores)} name key stores of Java, which cannot be read here; name PEM "
            "files with serverSslCert (certificates to trust), sslCert and sslKey instead"
        )
    for theirs, ours in (
        ("serverSslCert", "ssl_ca"),
        ("sslCert", "ssl_cert"),
        ("sslKey", "ssl_key"),
    ):
        if theirs in given:
            options[ours] = given[theirs].removeprefix("file://")
    if "ssl_key" in options and "ssl_cert" not in options:
        raise UrlInvalid("sslKey names the key of a certificate; name that with sslCert")
    for theirs, ours in (("connectTimeout", "connect_timeout"), ("socketTimeout", "read_timeout")):
        if ms := _whole(given, theirs):
            options[ours] = max(1, round(ms / 1000))
    if "sessionVariables" in given:
        options["variables"] = given["sessionVariables"]
    if given.get("createDatabaseIfNotExist", "").lower() == "true":
        options["create_database"] = True
    if given.get("allowLoadLocalInfile", "").lower() == "true":
        options["local_infile"] = True
    # Both drivers read TINYINT(1) as a boolean and BIT unless told otherwise.
    options["tiny_int_is_bit"] = given.get("tinyInt1isBit", "true").lower() != "false"
    return Url(
        Kind.MYSQL,
        f"jdbc:{scheme}://{_shown(hosts)}/{unquote(database)}",
        hosts,
        unquote(database),
        user or given.get("user"),
        _password(given, password),
        options,
        mariadb=scheme == "mariadb",
    )


def _mysql_ssl(scheme: str, given: Mapping[str, str]) -> str:
    if mode := given.get("sslMode"):
        if mode.upper() not in _SSL_MODES:
            raise UrlInvalid(f"sslMode '{mode}' is none of {', '.join(_SSL_MODES)}")
        return _SSL_MODES[mode.upper()]

    def says(name: str, otherwise: bool) -> bool:
        return given.get(name, str(otherwise)).lower() in ("true", "1", "yes")

    if scheme == "mariadb":
        if not says("useSsl", says("useSSL", False)):
            return "disabled"
        trusting = says("trustServerCertificate", False)
        if trusting or says("disableSslHostnameVerification", False):
            return "required" if trusting else "verify-ca"
        return "verify-full"
    if not says("useSSL", True):
        return "disabled"
    if says("verifyServerCertificate", False):
        return "verify-ca"
    return "required" if says("requireSSL", False) else "preferred"


_PRAGMAS: Final = frozenset(
    "application_id auto_vacuum busy_timeout cache_size case_sensitive_like encoding foreign_keys "
    "journal_mode journal_size_limit locking_mode mmap_size page_size recursive_triggers "
    "secure_delete synchronous temp_store user_version".split()
)
_WORD: Final = re.compile(r"[\w-]+")


def _sqlite(rest: str) -> Url:
    where, given = _split(rest)
    if where.startswith("file:"):
        # A URI of SQLite's own: it reads its parameters itself.
        own = {name: value for name, value in given.items() if name not in _PRAGMAS}
        query = "&".join(f"{name}={value}" for name, value in own.items())
        file = f"{where}?{query}" if query else where
    else:
        file = where
    if file in ("", ":memory:") or ":memory:" in file:
        raise UrlInvalid(
            "a database in memory is another one for every connection; name a file, such as "
            "jdbc:sqlite:/path/to/file.db"
        )
    pragmas: dict[str, str | int | bool] = {}
    for name, value in given.items():
        if name not in _PRAGMAS:
            continue
        if not _WORD.fullmatch(value):
            raise UrlInvalid(f"'{value}' cannot be the value of SQLite's {name}")
        pragmas[name] = value
    return Url(Kind.SQLITE, f"jdbc:sqlite:{where}", database=file, options=pragmas)


_DRIVER: Final = re.compile(r"jdbc:(?P<driver>[A-Za-z][\w.+-]*(?::(?:sqlserver|sybase|thin))?):.+")
_LOGIN: Final = re.compile(r"(?<=//)[^/@]*@|(?<=thin:)[^@]+(?=@)")
_PARAMETERS: Final = re.compile(r"[?;].*|:\w+=.*", re.DOTALL)


def _other(text: str, user: str | None, password: Secret | None) -> Url:
    found = _DRIVER.fullmatch(text)
    if found is None:
        raise UrlInvalid(
            "a JDBC URL has the form jdbc:DATABASE:…, such as jdbc:postgresql://host/database"
        )
    shown = _LOGIN.sub("", _PARAMETERS.sub("", text))
    return Url(
        Kind.OTHER,
        shown,
        database=found["driver"].lower(),
        user=user,
        password=password,
        address=Secret(text),
    )


def _split(rest: str) -> tuple[str, dict[str, str]]:
    """What is before the parameters, and these."""
    where, _, query = rest.partition("?")
    given: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        given[unquote(name)] = unquote(value)
    return where, given


def _hosts(addresses: str, default: int) -> tuple[tuple[str, int], ...]:
    found = []
    for address in addresses.split(","):
        host, port = _address(address.strip())
        if not port:
            found.append((host, default))
        elif port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16:
            found.append((host, int(port)))
        else:
            raise UrlInvalid(f"'{port}' is no port")
    return tuple(found)


_ADDRESS: Final = re.compile(r"address=(?P<parts>(\(\w+=[^()]*\))+)", re.IGNORECASE)


def _address(text: str) -> tuple[str, str]:
    """Host and port of `host:port`, `[::1]:port` or `address=(host=…)(port=…)`."""
    if found := _ADDRESS.fullmatch(text):
        parts = dict(part.split("=", 1) for part in found["parts"][1:-1].split(")("))
        return parts.get("host", "localhost"), parts.get("port", "")
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = text.partition(":")
    return host or "localhost", port


def _shown(hosts: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)


def _whole(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise UrlInvalid(f"{name} has to be a whole number, not '{text}'")
    return int(text) or None


def _password(given: Mapping[str, str], password: Secret | None) -> Secret | None:
    if password is not None:
        return password
    return Secret(given["password"]) if "password" in given else None
