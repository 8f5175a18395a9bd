from __future__ import annotations

import pytest

from penstock.config import listeners, worker, worker_keys
from penstock.config.define import Config
from penstock.config.listeners import HeaderRule, Listener, parse_listener
from penstock.config.worker import parse_distributed
from penstock.errors import ConfigInvalid

MINIMAL = {
    "bootstrap.servers": "b:1",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "K",
    "value.converter": "V",
}


def config(**more: str) -> Config:
    return parse_distributed(
        MINIMAL | {name.replace("__", "."): text for name, text in more.items()}
    )


def problems(settings: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as raised:
        parse_distributed(settings)
    return raised.value.problems


def test_a_minimal_worker_gets_the_defaults() -> None:
    minimal = config()
    assert minimal[worker_keys.BOOTSTRAP_SERVERS] == ("b:1",)
    assert minimal[worker_keys.OFFSET_STORAGE_PARTITIONS] == 25
    assert minimal[worker_keys.SCHEDULED_REBALANCE_MAX_DELAY] == 300_000
    assert minimal[worker_keys.LISTENERS] == ("http://:8083",)
    assert minimal[worker_keys.ADMIN_LISTENERS] is None


def test_everything_that_is_missing_is_said_at_once() -> None:
    assert problems({}) == tuple(
        f'Missing required configuration "{name}" which has no default value.'
        for name in (
            "bootstrap.servers",
            "key.converter",
            "value.converter",
            "group.id",
            "offset.storage.topic",
            "config.storage.topic",
            "status.storage.topic",
        )
    )


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ({}, []),
        (
            {"bootstrap__resolve__timeout__ms": "5000"},
            [
                "The value 5000 for the bootstrap.resolve.timeout.ms property will be ignored as "
                "Kafka Connect does not support asynchronous bootstrap resolution. The value 0 "
                "will be used instead."
            ],
        ),
        (
            {"connections__max__idle__ms": "1000", "rebalance__timeout__ms": "2000"},
            [
                "Configuration 'connections.max.idle.ms' with value '1000' is lower than "
                "configuration 'rebalance.timeout.ms' with value '2000'. This may cause the "
                "connection to the group coordinator to be closed during an ongoing rebalance, "
                "which can prolong or disrupt group rejoin."
            ],
        ),
        ({"connections__max__idle__ms": "-1", "rebalance__timeout__ms": "2000"}, []),
    ],
)
def test_a_worker_warns_as_kafka_connect_does(settings: dict[str, str], texts: list[str]) -> None:
    assert worker.warnings(config(**settings)) == texts


def test_a_resolution_time_below_zero_is_refused() -> None:
    assert problems({**MINIMAL, "bootstrap.resolve.timeout.ms": "-1"}) == (
        "Invalid value -1 for configuration bootstrap.resolve.timeout.ms: Value must be at least 0",
    )


PARTITIONS = "Number of partitions must be positive, or -1 to use the broker's default"
FORMAT = "Listener doesn't have the right format (protocol://hostname:port)."

# Captured from DistributedConfig of Kafka Connect 4.2.0, up to the mark.
REFUSED = [
    ("session.timeout.ms", "x", "{}Not a number of type INT"),
    ("offset.storage.partitions", "0", "{}" + PARTITIONS),
    ("connect.protocol", "x", "{}Invalid Connect protocol compatibility"),
    (
        "inter.worker.signature.algorithm",
        "HmacSHA1",
        "{}Signature algorithm must be present in inter.worker.verification.algorithms list",
    ),
    (
        "exactly.once.source.support",
        "no",
        "{}String must be one of (case insensitive): DISABLED, ENABLED, PREPARING",
    ),
    (
        "plugin.discovery",
        "x",
        "{}String must be one of (case insensitive):"
        " ONLY_SCAN, SERVICE_LOAD, HYBRID_WARN, HYBRID_FAIL",
    ),
    ("ssl.client.auth", "x", "{}String must be one of: required, requested, none"),
    ("metrics.recording.level", "TRACE", "{}String must be one of: INFO, DEBUG"),
    (
        "security.protocol",
        "x",
        "{}String must be one of (case insensitive): SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT",
    ),
    (
        "metadata.recovery.strategy",
        "x",
        "{}String must be one of (case insensitive): REBOOTSTRAP, NONE",
    ),
    ("scheduled.rebalance.max.delay.ms", "-1", "{}Value must be at least 0"),
    ("send.buffer.bytes", "-2", "{}Value must be at least -1"),
    ("rest.advertised.port", "abc", "{}Not a number of type INT"),
    (
        "bootstrap.servers",
        "",
        "Configuration 'bootstrap.servers' must not be empty."
        " Valid values include: any non-empty value",
    ),
    (
        "bootstrap.servers",
        "a:1,,b:2",
        "Configuration 'bootstrap.servers' values must not be empty.",
    ),
    ("config.providers", "a,,b", "Configuration 'config.providers' values must not be empty."),
    (
        "plugin.path",
        "",
        "Configuration 'plugin.path' must not be empty. Valid values include: any non-empty value",
    ),
    # From here on, Kafka Connect reports errors later in its startup.
    ("listeners", "a", "Invalid value [a] for configuration listeners: " + FORMAT),
    (
        "listeners",
        "http://:1,",
        "Invalid value [http://:1, ] for configuration listeners:"
        " Empty URL found when parsing listeners list.",
    ),
    (
        "listeners",
        "",
        "Invalid value [] for configuration listeners: at least one URL is expected,"
        " ex: http://localhost:8080,https://localhost:8443.",
    ),
    ("admin.listeners", "foo", "Invalid value [foo] for configuration admin.listeners: " + FORMAT),
    (
        "response.http.headers.config",
        "bad a:b",
        "{}Invalid header config action: 'bad'. Expected one of [set, add, setDate, addDate]",
    ),
    ("rest.advertised.listener", "ftp", "{}String must be one of (case insensitive): http, https"),
]


@pytest.mark.parametrize(("name", "value", "text"), REFUSED)
def test_a_worker_setting_is_refused_in_the_words_of_the_reference(
    name: str, value: str, text: str
) -> None:
    prefix = f"Invalid value {value} for configuration {name}: "
    assert problems(MINIMAL | {name: value}) == (text.format(prefix),)


ACCEPTED = [
    ("connect.protocol", "EAGER"),
    ("exactly.once.source.support", "ENABLED"),
    ("admin.listeners", ""),
    ("group.id", ""),
    ("metric.reporters", ""),
    ("rest.extension.classes", ""),
    ("inter.worker.verification.algorithms", "HmacSHA256,HmacMD5"),
    ("listeners", "HTTP://h:1"),
    ("an.unknown.setting", "x"),
]


@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_worker_files_that_the_reference_accepts_are_accepted(name: str, value: str) -> None:
    assert parse_distributed(MINIMAL | {name: value}).props[name] == value


def test_a_rest_extension_is_refused_as_the_api_would_be_open_without_it() -> None:
    name = "rest.extension.classes"
    [problem] = problems(MINIMAL | {name: "org.apache.kafka.BasicAuth"})
    assert problem.startswith(
        f"Invalid value [org.apache.kafka.BasicAuth] for configuration {name}"
    )
    assert "ssl.client.auth=required" in problem


def test_no_verification_algorithm_is_one_problem() -> None:
    name = "inter.worker.verification.algorithms"
    assert problems(MINIMAL | {name: ""}) == (
        f"Invalid value [] for configuration {name}:"
        " At least one signature verification algorithm must be provided",
    )


def test_an_algorithm_we_cannot_compute_is_refused() -> None:
    [problem] = problems(MINIMAL | {"inter.worker.verification.algorithms": "HmacSHA256,Rot13"})
    assert "the algorithm is not supported by this worker" in problem


def test_repeated_entries_of_a_list_count_once() -> None:
    assert config(bootstrap__servers="a:1,b:1,a:1")[worker_keys.BOOTSTRAP_SERVERS] == ("a:1", "b:1")


def test_a_standalone_worker_needs_a_file_and_no_group() -> None:
    alone = {
        name: MINIMAL[name] for name in MINIMAL if "storage" not in name and name != "group.id"
    }
    parsed = worker_keys.STANDALONE.parse(alone | {"offset.storage.file.filename": "/tmp/offsets"})
    assert parsed[worker_keys.OFFSET_STORAGE_FILE] == "/tmp/offsets"
    with pytest.raises(ConfigInvalid, match=r"offset\.storage\.file\.filename"):
        worker_keys.STANDALONE.parse(alone)


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("http://:8083", Listener("http", "", 8083)),
        ("HTTPS://Host:1", Listener("https", "Host", 1)),
        ("https://[::1]:80", Listener("https", "::1", 80)),
        ("http://fe80::1%eth0:80", Listener("http", "fe80::1%eth0", 80)),
        ("http://a_b-c.d:0", Listener("http", "a_b-c.d", 0)),
        ("http://h:-1", Listener("http", "h", -1)),
    ],
)
def test_a_listener_is_parsed(text: str, listener: Listener) -> None:
    assert parse_listener(text) == listener


@pytest.mark.parametrize("text", ["", "h:1", "http://h", "http://h:1/p", "http://h:1x", "http://:"])
def test_a_listener_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        parse_listener(text)
    assert str(raised.value) == FORMAT


def test_a_listener_of_another_protocol_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match='must be either "http" or "https"'):
        parse_listener("ftp://h:1")


ADVERTISED = [
    ({}, "http://me:9/"),
    ({"listeners": "http://:8083"}, "http://me:8083/"),
    ({"listeners": "http://:0"}, "http://me:9/"),
    ({"listeners": "http://h:8083"}, "http://h:8083/"),
    ({"listeners": "https://s:1"}, "https://s:1/"),
    ({"listeners": "https://s:1,HTTP://h:2"}, "http://h:2/"),
    ({"listeners": "https://s:1,http://h:2", "rest.advertised.listener": "HTTPS"}, "https://s:1/"),
    ({"listeners": "http://h:2", "rest.advertised.listener": "https"}, "https://me:9/"),
    ({"rest.advertised.host.name": "a", "rest.advertised.port": "7"}, "http://a:7/"),
    ({"listeners": "http://h:2", "rest.advertised.host.name": "a"}, "http://a:2/"),
    ({"listeners": "http://h:2", "rest.advertised.port": "7"}, "http://h:7/"),
    ({"listeners": "http://h:2", "rest.advertised.host.name": ""}, "http://h:2/"),
    ({"listeners": "http://[::1]:2"}, "http://[::1]:2/"),
]


@pytest.mark.parametrize(("settings", "url"), ADVERTISED)
def test_the_advertised_url_is_where_others_reach_the_worker(
    settings: dict[str, str], url: str
) -> None:
    parsed = parse_distributed(MINIMAL | {"listeners": "http://:0"} | settings)
    assert worker.advertised_url(parsed, bound_port=9, local_host="me") == url
    assert f"//{worker.worker_id(parsed, 9, 'me')}/" in url


def test_admin_listeners_are_shared_separate_or_off() -> None:
    assert worker.admin_listeners(config()) is None
    assert worker.admin_listeners(config(admin__listeners="")) == ()
    assert worker.admin_listeners(config(admin__listeners="http://a:1")) == (
        Listener("http", "a", 1),
    )


def test_storage_settings_become_topic_settings() -> None:
    parsed = config(
        offset__storage__partitions="1",
        offset__storage__replication__factor="1",
        offset__storage__min__insync__replicas="2",
        offset__storage__cleanup__policy="delete",
        status__storage__segment__bytes="9",
    )
    found = worker.topic_settings(parsed, worker_keys.OFFSET_STORAGE_PREFIX)
    assert found.settings == {"min.insync.replicas": "2"}
    assert found.dropped == ("offset.storage.cleanup.policy",)
    found = worker.topic_settings(parsed, worker_keys.STATUS_STORAGE_PREFIX)
    assert (found.settings, found.dropped) == ({"segment.bytes": "9"}, ())


def test_the_config_topic_has_one_partition_whatever_is_asked() -> None:
    found = worker.topic_settings(
        config(config__storage__partitions="3"), worker_keys.CONFIG_STORAGE_PREFIX
    )
    assert (found.settings, found.dropped) == ({}, ("config.storage.partitions",))


def test_client_ids_start_with_group_and_client() -> None:
    assert worker.client_id_base(config()) == "g-"
    assert worker.client_id_base(config(client__id="me")) == "g-me-"


def test_spark_settings_pass_straight_through() -> None:
    parsed = config(spark__master="local[2]", spark__sql__shuffle__partitions="4", sparks="no")
    assert worker.spark_settings(parsed) == {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "4",
    }


@pytest.mark.parametrize(
    ("settings", "encrypted"),
    [
        ({}, False),
        ({"security__protocol": "SASL_PLAINTEXT"}, False),
        ({"ssl__protocol": "TLSv1.3", "listeners": "https://127.0.0.1:8083"}, False),
        ({"security__protocol": "SSL"}, True),
        ({"security__protocol": "sasl_ssl"}, True),
        ({"consumer__security__protocol": "SASL_SSL"}, True),
    ],
)
def test_kafka_is_encrypted_if_any_client_asks_for_it(
    settings: dict[str, str], encrypted: bool
) -> None:
    assert worker.kafka_encrypted(config(**settings)) is encrypted


def test_https_settings_are_prefixed_or_plain_and_never_mixed() -> None:
    parsed = config(ssl__keystore__location="plain", ssl__protocol="TLSv1.2")
    assert worker.rest_ssl_settings(parsed) == {
        "ssl.keystore.location": "plain",
        "ssl.protocol": "TLSv1.2",
    }
    parsed = config(ssl__protocol="TLSv1.2", listeners__https__ssl__keystore__location="own")
    assert worker.rest_ssl_settings(parsed) == {"ssl.keystore.location": "own"}


# As `Config` in RestServerConfig of Kafka Connect 4.2.0 parses them.
HEADER_RULES = [
    ("", ()),
    ("set a:b", (HeaderRule("set", "a", "b"),)),
    ("add a: b,", (HeaderRule("add", "a", "b"),)),
    (
        'add X-Frame-Options:DENY, "set Cache-Control:no-cache, no-store"',
        (
            HeaderRule("add", "X-Frame-Options", "DENY"),
            HeaderRule("set", "Cache-Control", "no-cache, no-store"),
        ),
    ),
    ("setDate Date:0", (HeaderRule("setDate", "Date", "0"),)),
]


@pytest.mark.parametrize(("text", "rules"), HEADER_RULES)
def test_header_rules_are_parsed(text: str, rules: tuple[HeaderRule, ...]) -> None:
    assert listeners.parse_header_rules(text) == rules


PAIR = "Expected: '[header name]:[header value]'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "foo",
            "Invalid format of header config 'foo'."
            " Expected: '[action] [header name]:[header value]'",
        ),
        ("add a b", f"Invalid format of header name and header value pair 'a b'. {PAIR}"),
        ("add a:", f"Invalid format of header name and header value pair 'a:'. {PAIR}"),
        (
            'set a:b, add "c,d":e',
            f"Invalid format of header name and header value pair '\"c'. {PAIR}",
        ),
        ("add  :b", "Invalid header name ''. The '[header name]' cannot contain whitespace"),
        ("add a b:c", "Invalid header name 'a b'. The '[header name]' cannot contain whitespace"),
        (
            "bad a:b",
            "Invalid header config action: 'bad'. Expected one of [set, add, setDate, addDate]",
        ),
    ],
)
def test_a_header_rule_is_refused_in_the_words_of_the_reference(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        listeners.parse_header_rules(text)
    assert str(raised.value) == message


def test_variables_of_the_environment_become_settings() -> None:
    environ = {
        "CONNECT_GROUP_ID": "g",
        "CONNECT_CONFIG_STORAGE_TOPIC": "c",
        "CONNECT_KEY__UNDERSCORE": "u",
        "CONNECT_KEY___HYPHEN": "h",
        "CONNECT_": "x",
        "CONNECTOR": "x",
        "PATH": "x",
    }
    assert worker.from_environment(environ) == {
        "config.storage.topic": "c",
        "group.id": "g",
        "key-hyphen": "h",
        "key_underscore": "u",
    }
