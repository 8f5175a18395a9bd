"""Connection settings of Redis' sink and sources (connectors.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIDDEN,
    HIGH,
    Config,
    Group,
    Secret,
    invalid,
)
from penstock.connectors.redis.client.access import DEFAULT_PORT, Access, Address, Mode
from penstock.connectors.redis.client.uris import Uri, UriInvalid, parse_uri
from penstock.connectors.redis.settings.shared import ServersCheck
from penstock.connectors.redis.settings.tls import Tls


def _uri_problem(text: str | None) -> str | None:
    try:
        if text and text.strip():
            parse_uri(text)
    except UriInvalid as error:
        return str(error)
    return None


# fmt: off
CONNECTION_KEYS: Final = Group()
CLUSTER: Final = CONNECTION_KEYS.flag("redis.cluster", False,
    "Whether to connect to a Redis Cluster; the address of one node is enough.")
HOST: Final = CONNECTION_KEYS.text("redis.host", "localhost",
    "The server's host, unless `redis.uri` is set.", importance=HIGH)
PORT: Final = CONNECTION_KEYS.number("redis.port", DEFAULT_PORT,
    "The server's port, unless `redis.uri` is set.", at_least=1, at_most=65_535, importance=HIGH)
URI: Final = CONNECTION_KEYS.text("redis.uri", "",
    "The server: redis://host:port, rediss:// with TLS, redis-sentinel://host,host#primary, "
    "redis-socket:///path; it may contain user, password and database. A list of host:port names "
    "the nodes of a cluster.", check=ServersCheck("a URI", _uri_problem))
TLS: Final = CONNECTION_KEYS.flag("redis.tls", False,
    "Whether to connect with TLS; rediss:// does the same.")
INSECURE: Final = CONNECTION_KEYS.flag("redis.insecure", False,
    "Whether to skip verification of the server's certificate.")
PASSWORD_KEY: Final = CONNECTION_KEYS.secret("redis.password", "", "The password.")
USERNAME: Final = CONNECTION_KEYS.text("redis.username", "",
    "The user. Without it: the server's default user.")
TIMEOUT: Final = CONNECTION_KEYS.long("redis.timeout", 60,
    "How many seconds to wait for a response; 0: indefinitely.", at_least=0, at_most=86_400)
POOL: Final = CONNECTION_KEYS.number("redis.pool", 8,
    "Maximum number of connections of Kafka Connect's task. Ignored: a task has one pipelined "
    "connection to each server.", at_least=1)
KEY_FILE: Final = CONNECTION_KEYS.text("redis.key.file", "",
    "File with the client's private key, in PEM.")
KEY_CERT: Final = CONNECTION_KEYS.text("redis.key.cert", "",
    "File with the client's certificates, in PEM.")
KEY_PASSWORD: Final = CONNECTION_KEYS.secret("redis.key.password", "",
    "The password of the private key.")
CA_CERT: Final = CONNECTION_KEYS.text("redis.cacert", "",
    "File with the trusted certificates, in PEM. Without it: the system's.")
# fmt: on
_TLS_NAMES: Final = {
    "ssl.keystore.key": KEY_FILE.name,
    "ssl.keystore.certificate.chain": KEY_CERT.name,
    "ssl.key.password": KEY_PASSWORD.name,
    "ssl.truststore.certificates": CA_CERT.name,
}


def connection_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Problems of several settings together."""
    uri, clustered = uri_of(parsed.get(URI.name)), bool(parsed.get(CLUSTER.name))
    if (
        uri is not None
        and len(uri.addresses) > 1
        and uri.mode is not Mode.SENTINEL
        and not clustered
    ):
        text = (
            "Several servers need redis.cluster=true for a cluster, or a sentinel URI: "
            "redis-sentinel://host,host#primary"
        )
        yield URI.name, invalid(URI.name, HIDDEN, text)
    if uri is not None and clustered:
        if uri.mode is Mode.SENTINEL:
            text = (
                "A cluster has no sentinels: set redis.cluster=false, or list the cluster's nodes"
            )
            yield CLUSTER.name, invalid(CLUSTER.name, "true", text)
        if uri.database:
            text = "A cluster has only database 0"
            yield URI.name, invalid(URI.name, HIDDEN, text)
    if bool(parsed.get(KEY_FILE.name)) != bool(parsed.get(KEY_CERT.name)):
        text = f"{KEY_FILE.name} and {KEY_CERT.name} must be set together"
        yield KEY_CERT.name, text
    password = parsed.get(PASSWORD_KEY.name)
    has_password = isinstance(password, Secret) and password.value
    if parsed.get(USERNAME.name) and not has_password and not (uri is not None and uri.password):
        yield (
            USERNAME.name,
            invalid(
                USERNAME.name, parsed[USERNAME.name], "A user needs a password (redis.password)"
            ),
        )


def uri_of(text: object) -> Uri | None:
    """The URI of a setting's value; None if it is empty or malformed."""
    try:
        return parse_uri(text) if isinstance(text, str) and text.strip() else None
    except UriInvalid:
        return None  # its own check reports it


def access_of(config: Config) -> Access:
    """Connection parameters of the servers."""
    text = config[URI].strip()
    uri = parse_uri(text) if text else Uri(
        Mode.STANDALONE, (Address(config[HOST].strip(), config[PORT]),)
    )  # fmt: skip
    password = config[PASSWORD_KEY].value
    with_tls = uri.tls or config[TLS]
    tls = Tls(
        {"ssl.key.password": config[KEY_PASSWORD].value},
        {
            "ssl.keystore.key": config[KEY_FILE],
            "ssl.keystore.certificate.chain": config[KEY_CERT],
            "ssl.truststore.certificates": config[CA_CERT],
        },
        _TLS_NAMES,
        verifies=uri.verifies and not config[INSECURE],
        checks_name=uri.checks_name,
    )
    timeout_s = float(config[TIMEOUT])
    if uri.timeout_s is not None and TIMEOUT.name not in config.props:
        timeout_s = uri.timeout_s
    return Access(
        Mode.CLUSTER if config[CLUSTER] else uri.mode,
        uri.addresses,
        database=uri.database or 0,
        username=config[USERNAME] if password and config[USERNAME] else uri.username,
        password=Secret(password or uri.password),
        master=uri.master,
        tls=tls if with_tls else None,
        timeout_s=timeout_s,
        client_name=uri.client_name,
        blame=URI.name if text else HOST.name,
        blame_user=PASSWORD_KEY.name,
    )
