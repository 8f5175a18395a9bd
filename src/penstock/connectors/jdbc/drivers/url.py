"""JDBC URLs, and the options of the Python drivers that they stand for.

    jdbc:postgresql://host:port,host:port/database?currentSchema=s&ssl=true
    jdbc:mysql://host:port/database?sslMode=REQUIRED        jdbc:mariadb://…
    jdbc:sqlite:/path/to/file?busy_timeout=5000             jdbc:sqlite::memory:
    jdbc:anything:else                                      by that database's own JDBC driver

Parameters of the JVM's drivers that change stored data or the connection are translated, or refused
with an alternative (`drivers.properties`, Java key stores). Those that only tune the JVM's driver
are ignored. `connection.user` and `connection.password` override user and password of the
URL.
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
from penstock.connectors.jdbc.drivers.properties import ACTING, refusal, without_effect


class Kind(Enum):
    """The databases that need no JVM, and all others; the value is the name in
    `dialect.name`."""

    POSTGRESQL = "PostgreSqlDatabaseDialect"
    MYSQL = "MySqlDatabaseDialect"
    SQLITE = "SqliteDatabaseDialect"
    OTHER = "GenericDatabaseDialect"


class UrlInvalid(ConfigInvalid):
    """A URL that cannot be used; the message names the setting, and contains no password."""

    def __init__(self, text: str) -> None:
        super().__init__([f"Invalid value for configuration connection.url: {text}"])


@dataclass(frozen=True, slots=True)
class Url:
    """The kind of a database, its hosts, and the parameters of its driver.

    `options` are those of psycopg's or PyMySQL's `connect`, or SQLite's pragmas; `mariadb` says
    that the parameters of a MySQL URL have the meaning of MariaDB's driver. For other databases,
    `database` is what follows `jdbc:` and selects the driver, `address` is the original URL, and
    `options` are the settings of the driver.
    """

    kind: Kind
    shown: str  # for messages and logs: without parameters, user and password
    hosts: tuple[tuple[str, int], ...] = ()
    database: str = ""  # SQLite: the file
    user: str | None = None
    password: Secret | None = None
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    mariadb: bool = False
    without_effect: tuple[str, ...] = ()  # parameters that only tune the JVM's driver
    address: Secret | None = None  # it may hold a password


def parse(text: str, user: str | None = None, password: Secret | None = None) -> Url:
    """Parses a JDBC URL; raises UrlInvalid for one that cannot be used.

    >>> parse("jdbc:postgresql://db/shop?currentSchema=app").options["options"]
    '-c search_path=app'
    >>> parse("jdbc:sqlite:/tmp/shop.db").database
    '/tmp/shop.db'
    """
    text = text.strip()
    if not text.lower().startswith("jdbc:"):
        raise UrlInvalid(
            "a JDBC URL must start with 'jdbc:', such as jdbc:postgresql://host/database"
        )
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
"""Parameters of pgjdbc, and libpq's names of them."""

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
    "preferPrimary": "any",  # libpq has no such choice; it tries the hosts in order
}
_PORT: Final = {Kind.POSTGRESQL: 5432, Kind.MYSQL: 3306}


def _postgresql(rest: str, user: str | None, password: Secret | None) -> Url:
    path, parameters = _split(rest)
    _refuse("postgresql", parameters)
    hosts: tuple[tuple[str, int], ...] = (("localhost", _PORT[Kind.POSTGRESQL]),)
    if path.startswith("//"):
        addresses, _, database = path[2:].partition("/")
        if addresses:
            hosts = _hosts(addresses, _PORT[Kind.POSTGRESQL])
    else:
        database = path.removeprefix("/")
    user = user or parameters.get("user")
    database = unquote(database) or user or ""
    options: dict[str, str | int | bool] = {
        ours: parameters[theirs] for theirs, ours in _LIBPQ.items() if theirs in parameters
    }
    if "sslmode" not in parameters and parameters.get("ssl", "false").lower() in ("true", ""):
        options["sslmode"] = "verify-full"  # pgjdbc since 42.2.5
    for name, choices in _CHOICES.items():
        if parameters.get(name, choices[0]) not in choices:
            raise UrlInvalid(f"{name} '{parameters[name]}' is not one of {', '.join(choices)}")
    if parameters.get("gssEncMode") == "allow":  # only if the server demands it; not in libpq
        options["gssencmode"] = "prefer"
    if key := parameters.get("sslkey"):
        if key.lower().endswith((".pk8", ".p12", ".pfx")):
            raise UrlInvalid(
                f"the key '{key}' (sslkey) has a Java format; convert it with "
                "'openssl pkcs8 -inform DER -in KEY.pk8 -out KEY.pem' and name the PEM file"
            )
        options["sslkey"] = key
    if servers := parameters.get("targetServerType"):
        if servers not in _SERVER_TYPES:
            raise UrlInvalid(
                f"targetServerType '{servers}' is not one of {', '.join(_SERVER_TYPES)}"
            )
        options["target_session_attrs"] = _SERVER_TYPES[servers]
    if parameters.get("loadBalanceHosts", "false").lower() == "true":
        options["load_balance_hosts"] = "random"
    if parameters.get("tcpKeepAlive", "").lower() in ("true", "false"):
        options["keepalives"] = int(parameters["tcpKeepAlive"].lower() == "true")
    connect_s = _whole(parameters, "connectTimeout") or _whole(parameters, "loginTimeout")
    if connect_s or "connectTimeout" not in parameters:  # pgjdbc: 0 waits forever
        options["connect_timeout"] = connect_s or 10  # pgjdbc's default
    if socket_s := _whole(parameters, "socketTimeout"):
        options["tcp_user_timeout"] = socket_s * 1000
    settings = [parameters["options"]] if "options" in parameters else []
    if "currentSchema" in parameters:
        settings.append(f"-c search_path={_escaped(parameters['currentSchema'])}")
    if parameters.get("readOnly", "").lower() == "true":
        settings.append("-c default_transaction_read_only=on")
    if settings:
        options["options"] = " ".join(settings)
    return Url(
        Kind.POSTGRESQL,
        f"jdbc:postgresql://{_shown(hosts)}/{database}",
        hosts,
        database,
        user,
        _password(parameters, password),
        options,
        without_effect=without_effect("postgresql", parameters),
    )


def _refuse(scheme: str, parameters: Mapping[str, str]) -> None:
    if problem := refusal(scheme, parameters):
        raise UrlInvalid(problem)


def _escaped(value: str) -> str:
    """A value for libpq's `options`, where blanks separate settings."""
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


_ZERO_DATES: Final[Mapping[str, str]] = {
    "exception": "",
    "convert_to_null": "null",
    "converttonull": "null",
    "round": "round",
}
"""Connector/J's choices of zeroDateTimeBehavior, in lower case: what '0000-00-00' is read as."""


def _mysql(scheme: str, rest: str, user: str | None, password: Secret | None) -> Url:
    address, parameters = _split(rest)
    _refuse(scheme, parameters)
    ignored = without_effect(scheme, parameters)
    names = {name.lower(): name for name in ACTING[scheme]}
    parameters = {names.get(name.lower(), name): value for name, value in parameters.items()}
    mode, slashes, path = address.partition("//")
    if not slashes:
        raise UrlInvalid(f"'//' and a host are missing after 'jdbc:{scheme}:'")
    if mode.strip(":").lower() not in ("", "loadbalance", "replication", "sequential", "failover"):
        raise UrlInvalid(f"unknown mode '{mode}' before '//'")
    addresses, _, database = path.partition("/")
    if "@" in addresses:
        login, _, addresses = addresses.rpartition("@")
        name, _, secret = login.partition(":")
        parameters = {"user": unquote(name), "password": unquote(secret), **parameters}
    port = _PORT[Kind.MYSQL]
    hosts = _hosts(addresses, port) if addresses else (("localhost", port),)
    options: dict[str, str | int | bool] = {"ssl": _mysql_ssl(scheme, parameters)}
    if stores := [name for name in _STORES if name in parameters]:
        raise UrlInvalid(
            f"Java key stores ({', '.join(stores)}) are not supported; name PEM files with "
            "serverSslCert (trusted certificates), sslCert and sslKey instead"
        )
    for theirs, ours in (
        ("serverSslCert", "ssl_ca"),
        ("sslCert", "ssl_cert"),
        ("sslKey", "ssl_key"),
    ):
        if theirs in parameters:
            options[ours] = parameters[theirs].removeprefix("file://")
    if "ssl_key" in options and "ssl_cert" not in options:
        raise UrlInvalid("sslKey needs the certificate of the key; name it with sslCert")
    for theirs, ours in (("connectTimeout", "connect_timeout"), ("socketTimeout", "read_timeout")):
        if timeout_ms := _whole(parameters, theirs):
            options[ours] = max(1, round(timeout_ms / 1000))
    if variables := _session_variables(parameters):
        options["variables"] = ", ".join(variables)
    if parameters.get("createDatabaseIfNotExist", "").lower() == "true":
        options["create_database"] = True
    if parameters.get("allowLoadLocalInfile", "").lower() == "true":
        options["local_infile"] = True
    # By default both drivers read TINYINT(1) as a boolean and BIT.
    options["tiny_int_is_bit"] = _flag(parameters, "tinyInt1isBit", True)
    options["bit_is_boolean"] = _flag(parameters, "transformedBitIsBoolean", False)
    options["year_is_date"] = _flag(parameters, "yearIsDateType", True)
    behavior = parameters.get("zeroDateTimeBehavior", "EXCEPTION")
    if behavior.lower() not in _ZERO_DATES:
        raise UrlInvalid(
            f"zeroDateTimeBehavior '{behavior}' is not one of EXCEPTION, CONVERT_TO_NULL, ROUND"
        )
    options["zero_dates"] = _ZERO_DATES[behavior.lower()]
    if scheme == "mariadb" and "zeroDateTimeBehavior" not in parameters:
        options["zero_dates"] = "null"  # as its driver reads them
    return Url(
        Kind.MYSQL,
        f"jdbc:{scheme}://{_shown(hosts)}/{unquote(database)}",
        hosts,
        unquote(database),
        user or parameters.get("user"),
        _password(parameters, password),
        options,
        mariadb=scheme == "mariadb",
        without_effect=ignored,
    )


def _session_variables(parameters: Mapping[str, str]) -> list[str]:
    """Assignments of session variables, for SET SESSION."""
    variables = []
    if collation := parameters.get("connectionCollation"):
        if not re.fullmatch(r"utf8mb4_\w+", collation, re.ASCII):
            raise UrlInvalid(
                f"connectionCollation '{collation}' is not a collation of utf8mb4, in which texts "
                "are always sent"
            )
        variables.append(f"collation_connection = {collation}")
    named = parameters.get("timezone", "disable")
    setting = "timezone"
    if _flag(parameters, "forceConnectionTimeZoneToSession", False):
        setting = "connectionTimeZone"
        named = parameters.get(setting) or parameters.get("serverTimezone", "LOCAL")
    if named.lower() in ("local", "auto"):
        raise UrlInvalid(
            f"{setting} must name a time zone to set in the session; {named} is that of the JVM"
        )
    if named.lower() not in ("disable", "server"):
        if not re.fullmatch(r"[\w/+:-]+", named, re.ASCII):
            raise UrlInvalid(f"{setting} '{named}' is not a time zone")
        variables.append(f"time_zone = '{named}'")
    if "sessionVariables" in parameters:
        variables.append(parameters["sessionVariables"])
    return variables


def _flag(parameters: Mapping[str, str], name: str, default: bool) -> bool:
    return parameters.get(name, str(default)).lower() in ("true", "1", "yes")


def _mysql_ssl(scheme: str, parameters: Mapping[str, str]) -> str:
    if mode := parameters.get("sslMode"):
        if mode.upper() not in _SSL_MODES:
            raise UrlInvalid(f"sslMode '{mode}' is not one of {', '.join(_SSL_MODES)}")
        return _SSL_MODES[mode.upper()]

    if scheme == "mariadb":
        if not _flag(parameters, "useSSL", False):
            return "disabled"
        trusting = _flag(parameters, "trustServerCertificate", False)
        if trusting or _flag(parameters, "disableSslHostnameVerification", False):
            return "required" if trusting else "verify-ca"
        return "verify-full"
    if not _flag(parameters, "useSSL", True):
        return "disabled"
    if _flag(parameters, "verifyServerCertificate", False):
        return "verify-ca"
    return "required" if _flag(parameters, "requireSSL", False) else "preferred"


_PRAGMAS: Final = frozenset(
    "application_id auto_vacuum busy_timeout cache_size case_sensitive_like encoding foreign_keys "
    "journal_mode journal_size_limit locking_mode mmap_size page_size recursive_triggers "
    "secure_delete synchronous temp_store user_version".split()
)
_WORD: Final = re.compile(r"[\w-]+")


def _sqlite(rest: str) -> Url:
    path, parameters = _split(rest)
    _refuse("sqlite", parameters)
    if path.startswith("file:"):
        # SQLite reads the other parameters of such a URI itself.
        own = {name: value for name, value in parameters.items() if name not in _PRAGMAS}
        query = "&".join(f"{name}={value}" for name, value in own.items())
        file = f"{path}?{query}" if query else path
    else:
        file = path
    if file in ("", ":memory:") or ":memory:" in file:
        raise UrlInvalid(
            "each connection would open a different in-memory database; name a file, such as "
            "jdbc:sqlite:/path/to/file.db"
        )
    pragmas: dict[str, str | int | bool] = {}
    for name, value in parameters.items():
        if name not in _PRAGMAS:
            continue
        if not _WORD.fullmatch(value):
            raise UrlInvalid(f"'{value}' is not a valid value of SQLite's {name}")
        pragmas[name] = value
    ignored = () if path.startswith("file:") else without_effect("sqlite", parameters)
    return Url(
        Kind.SQLITE,
        f"jdbc:sqlite:{path}",
        database=file,
        options=pragmas,
        without_effect=tuple(name for name in ignored if name not in _PRAGMAS),
    )


_DRIVER: Final = re.compile(r"jdbc:(?P<driver>[A-Za-z][\w.+-]*(?::(?:sqlserver|sybase|thin))?):.+")
_LOGIN: Final = re.compile(r"(?<=//)[^/@]*@|(?<=thin:)[^@]+(?=@)")
_PARAMETERS: Final = re.compile(r"[?;].*|:\w+=.*", re.DOTALL)


def _other(text: str, user: str | None, password: Secret | None) -> Url:
    parts = _DRIVER.fullmatch(text)
    if parts is None:
        raise UrlInvalid(
            "a JDBC URL must have the form jdbc:DATABASE:…, such as jdbc:postgresql://host/database"
        )
    shown = _LOGIN.sub("", _PARAMETERS.sub("", text))
    return Url(
        Kind.OTHER,
        shown,
        database=parts["driver"].lower(),
        user=user,
        password=password,
        address=Secret(text),
    )


def _split(rest: str) -> tuple[str, dict[str, str]]:
    """The text before the parameters, and the parameters."""
    path, _, query = rest.partition("?")
    parameters: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        parameters[unquote(name)] = unquote(value)
    return path, parameters


def _hosts(addresses: str, default: int) -> tuple[tuple[str, int], ...]:
    hosts = []
    for address in addresses.split(","):
        host, port = _address(address.strip())
        if not port:
            hosts.append((host, default))
        elif port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16:
            hosts.append((host, int(port)))
        else:
            raise UrlInvalid(f"'{port}' is not a valid port")
    return tuple(hosts)


_ADDRESS: Final = re.compile(r"address=(?P<parts>(\(\w+=[^()]*\))+)", re.IGNORECASE)


def _address(text: str) -> tuple[str, str]:
    """Host and port of `host:port`, `[::1]:port` or `address=(host=…)(port=…)`."""
    if address := _ADDRESS.fullmatch(text):
        parts = dict(part.split("=", 1) for part in address["parts"][1:-1].split(")("))
        return parts.get("host", "localhost"), parts.get("port", "")
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = text.partition(":")
    return host or "localhost", port


def _shown(hosts: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)


def _whole(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise UrlInvalid(f"{name} must be an integer, not '{text}'")
    return int(text) or None


def _password(parameters: Mapping[str, str], password: Secret | None) -> Secret | None:
    if password is not None:
        return password
    return Secret(parameters["password"]) if "password" in parameters else None
