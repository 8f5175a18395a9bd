"""Variables of Confluent's and Debezium's images, as settings of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.cli.container import variables
from penstock.errors import ConfigInvalid, StartupFailed
from penstock.host.logs import LogSettings

CONFLUENT = {
    "CONNECT_BOOTSTRAP_SERVERS": "kafka:9092",
    "CONNECT_GROUP_ID": "g",
    "CONNECT_CONFIG_STORAGE_TOPIC": "c",
    "CONNECT_OFFSET_STORAGE_TOPIC": "o",
    "CONNECT_STATUS_STORAGE_TOPIC": "s",
    "CONNECT_KEY_CONVERTER": "org.apache.kafka.connect.storage.StringConverter",
    "CONNECT_VALUE_CONVERTER": "org.apache.kafka.connect.storage.StringConverter",
    "CONNECT_REST_ADVERTISED_HOST_NAME": "worker",
}
DEBEZIUM = {
    "BOOTSTRAP_SERVERS": "kafka:9092",
    "CONFIG_STORAGE_TOPIC": "c",
    "OFFSET_STORAGE_TOPIC": "o",
}


def read(environ: Mapping[str, str]) -> variables.Variables:
    return variables.read(environ, lambda path: Path(path).read_text(), lambda: "10.0.0.7")


def test_confluents_variables_are_settings() -> None:
    said = read({**CONFLUENT, "CONNECT_OFFSET_FLUSH_INTERVAL_MS": "5", "CONNECT_A__B___C": "d"})
    assert said.settings == {
        "bootstrap.servers": "kafka:9092",
        "group.id": "g",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "rest.advertised.host.name": "worker",
        "offset.flush.interval.ms": "5",
        "a_b-c": "d",
        "listeners": "http://:8083",
    }
    assert said.notes == ()


@pytest.mark.parametrize("name", sorted(CONFLUENT))
@pytest.mark.parametrize("empty", [True, False])
def test_variables_that_confluents_images_require_are_required_in_their_words(
    name: str, empty: bool
) -> None:
    environ = (
        {**CONFLUENT, name: ""} if empty else {k: CONFLUENT[k] for k in CONFLUENT if k != name}
    )
    with pytest.raises(ConfigInvalid) as refused:
        read(environ)
    assert refused.value.problems == (f"{name} is required.",)


def test_everything_that_is_missing_is_reported_at_once() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read({})
    assert refused.value.problems == tuple(f"{name} is required." for name in CONFLUENT)


def test_an_avro_converter_requires_its_registry() -> None:
    environ = {**CONFLUENT, "CONNECT_VALUE_CONVERTER": "io.confluent.connect.avro.AvroConverter"}
    with pytest.raises(ConfigInvalid, match="CONNECT_VALUE_CONVERTER_SCHEMA_REGISTRY_URL is req"):
        read(environ)
    read({**environ, "CONNECT_VALUE_CONVERTER_SCHEMA_REGISTRY_URL": "http://registry:8081"})


def test_debeziums_variables_and_defaults_are_settings() -> None:
    said = read({**DEBEZIUM, "CONNECT_MAX_REQUEST_SIZE": "1", "SHUTDOWN_TIMEOUT": "9"})
    assert said.settings == {
        "bootstrap.servers": "kafka:9092",
        "group.id": "1",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "connect-status",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.flush.interval.ms": "60000",
        "offset.flush.timeout.ms": "5000",
        "task.shutdown.graceful.timeout.ms": "9",
        "rest.advertised.host.name": "10.0.0.7",
        "rest.advertised.port": "8083",
        "max.request.size": "1",
        "listeners": "http://:8083",
    }


@pytest.mark.parametrize(
    ("more", "listeners"),
    [
        ({"CONNECT_REST_PORT": "80"}, "http://:80"),
        ({"CONNECT_REST_HOST_NAME": "10.1.1.1"}, "http://10.1.1.1:8083"),
        ({"CONNECT_LISTENERS": "https://:8443", "CONNECT_REST_PORT": "80"}, "https://:8443"),
    ],
)
def test_rest_port_is_a_listener(more: dict[str, str], listeners: str) -> None:
    said = read({**CONFLUENT, **more})
    assert said.settings["listeners"] == listeners
    assert not {"rest.port", "rest.host.name"} & set(said.settings)


def test_secrets_come_from_files_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "jaas").write_text('a "b\\c";\nsecond\n')
    name = "CONNECT_SASL_JAAS_CONFIG"
    said = read({**CONFLUENT, f"{name}_FILE": str(tmp_path / "jaas")})
    assert said.settings["sasl.jaas.config"] == 'a "b\\c";\nsecond'
    with pytest.raises(ConfigInvalid, match=f"Both {name} and {name}_FILE are set"):
        read({**CONFLUENT, name: "x", f"{name}_FILE": str(tmp_path / "jaas")})
    with pytest.raises(ConfigInvalid, match=f"{name}_FILE: cannot read '/no/such'"):
        read({**CONFLUENT, f"{name}_FILE": "/no/such"})


def test_a_secret_may_be_what_is_required(tmp_path: Path) -> None:
    (tmp_path / "group").write_text("g\n")
    environ = {k: v for k, v in CONFLUENT.items() if k != "CONNECT_GROUP_ID"}
    said = read({**environ, "CONNECT_GROUP_ID_FILE": str(tmp_path / "group")})
    assert said.settings["group.id"] == "g"


def test_a_heap_is_sparks() -> None:
    said = read({**CONFLUENT, "KAFKA_HEAP_OPTS": "-Xms256M -Xmx2G -XX:+UseG1GC"})
    assert said.settings[variables.HEAP] == "2048m"
    assert said.notes == ("KAFKA_HEAP_OPTS: -XX:+UseG1GC has no effect; only -Xmx is used.",)
    explicit = {"KAFKA_HEAP_OPTS": "-Xmx2G", "CONNECT_SPARK_DRIVER_MEMORY": "3g"}
    assert read({**CONFLUENT, **explicit}).settings[variables.HEAP] == "3g"
    with pytest.raises(StartupFailed, match="'-Xmxmuch' is not a heap size"):
        read({**CONFLUENT, "KAFKA_HEAP_OPTS": "-Xmxmuch"})


def test_variables_for_the_jvm_of_connect_are_ignored_with_a_warning() -> None:
    said = read({**CONFLUENT, "KAFKA_JMX_PORT": "9999", "KAFKA_OPTS": "-Dx=y", "KAFKA_HOME": "/k"})
    assert [note.split(" ")[0] for note in said.notes] == ["KAFKA_JMX_PORT", "KAFKA_OPTS"]


def test_variables_that_kubernetes_sets_for_a_service_are_no_settings() -> None:
    service = {
        "CONNECT_SERVICE_HOST": "10.0.0.1",
        "CONNECT_SERVICE_PORT": "8083",
        "CONNECT_SERVICE_PORT_REST": "8083",
        "CONNECT_PORT": "tcp://10.0.0.1:8083",
        "CONNECT_PORT_8083_TCP_ADDR": "10.0.0.1",
    }
    assert read({**CONFLUENT, **service}).settings == read(CONFLUENT).settings


@pytest.mark.parametrize(
    ("environ", "root", "loggers"),
    [
        ({"CONNECT_LOG4J_ROOT_LOGLEVEL": "WARN"}, "WARN", {}),
        (
            {"CONNECT_LOG4J_LOGGERS": "org.apache.kafka.connect=DEBUG,a.b=ERROR"},
            "INFO",
            {"org.apache.kafka.connect": "DEBUG", "a.b": "ERROR"},
        ),
        ({"CONNECT_LOG4J_LOGGERS": "DEBUG, stdout"}, "DEBUG", {}),
        ({"LOG_LEVEL": "ERROR"}, "ERROR", {}),
        (
            {"CONNECT_LOG4J_LOGGER_ORG_APACHE_KAFKA": "DEBUG, out"},
            "INFO",
            {"org.apache.kafka": "DEBUG"},
        ),
    ],
)
def test_levels_are_those_of_either_image(
    environ: dict[str, str], root: str, loggers: dict[str, str]
) -> None:
    said = read({**CONFLUENT, **environ})
    settings = LogSettings.of(said.log_environ)
    assert (settings.root, settings.loggers) == (root, loggers)
    assert not any("log4j" in name for name in said.settings)


def test_a_log_pattern_is_ignored_with_a_word() -> None:
    said = read({**CONFLUENT, "CONNECT_LOG4J_APPENDER_STDOUT_LAYOUT_CONVERSIONPATTERN": "%m"})
    assert "PENSTOCK_LOG_FORMAT" in said.notes[0]


def test_variables_count_before_a_file() -> None:
    given = {"group.id": "file", "a": "file"}
    said = variables.read(CONFLUENT, str, str, given)
    assert (said.settings["group.id"], said.settings["a"]) == ("g", "file")


def test_seconds_to_wait_for_kafka() -> None:
    assert variables.kafka_timeout_s({}) == 60
    assert variables.kafka_timeout_s({"CONNECT_CUB_KAFKA_TIMEOUT": "7"}) == 7
    with pytest.raises(StartupFailed, match="must be a number of seconds"):
        variables.kafka_timeout_s({"CONNECT_CUB_KAFKA_TIMEOUT": "soon"})
    assert "cub.kafka.timeout" not in read({**CONFLUENT, "CONNECT_CUB_KAFKA_TIMEOUT": "7"}).settings
