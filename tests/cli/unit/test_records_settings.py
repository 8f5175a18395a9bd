"""Where broker addresses and converters come from."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from penstock.cli.exits import NotThere, Unusable
from penstock.cli.records.reading import From, Start, start_of
from penstock.cli.records.settings import ConverterOptions, RecordsSettings, gather
from penstock.cli.session import CommandSession
from penstock.convert.json import SCHEMAS_ENABLE, JsonConverter
from penstock.convert.text import StringConverter
from penstock.kafka import clients

from .workers import FakeWorkers, Penstock

CONFIG = "/connectors/orders/config"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The settings of a worker."""
    file = tmp_path / "worker.properties"
    file.write_text(
        "bootstrap.servers=of-the-file:9092\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "value.converter.schemas.enable=false\n"
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.jaas.config=x.PlainLoginModule required username=me password=secret;\n"
        "consumer.max.poll.records=5\n"
        "config.providers=env\n"
        "config.providers.env.class=EnvVarConfigProvider\n"
    )
    return file


class Gather:
    def __init__(self, workers: FakeWorkers) -> None:
        self.workers = workers
        self.environ: dict[str, str] = {}

    def __call__(self, options: ConverterOptions, client: str = "consumer") -> RecordsSettings:
        transport = httpx.MockTransport(self.workers)
        return gather(CommandSession(environ=self.environ, transport=transport), options, client)


@pytest.fixture
def gathered(workers: FakeWorkers) -> Gather:
    return Gather(workers)


def test_kafka_is_where_the_nearest_says(gathered: Gather, file: Path) -> None:
    gathered.workers.on(
        "GET", CONFIG, (200, {"producer.override.bootstrap.servers": "of-the-connector:9092"})
    )
    assert gathered(ConverterOptions()).bootstrap == "localhost:9092"
    gathered.environ["CONNECT_BOOTSTRAP_SERVERS"] = "of-the-worker:9092"
    assert gathered(ConverterOptions()).bootstrap == "of-the-worker:9092"
    gathered.environ["PENSTOCK_BOOTSTRAP_SERVERS"] = "of-the-variable:9092"
    assert gathered(ConverterOptions()).bootstrap == "of-the-variable:9092"
    del gathered.environ["CONNECT_BOOTSTRAP_SERVERS"]
    assert gathered(ConverterOptions(worker=file)).bootstrap == "of-the-file:9092"
    named = ConverterOptions(worker=file, connector="orders")
    assert gathered(named).bootstrap == "of-the-connector:9092"
    said = ConverterOptions(worker=file, connector="orders", bootstrap="said:1")
    assert gathered(said).bootstrap == "said:1"
    assert gathered(said).origin == "--bootstrap-server"
    assert gathered(said).java["bootstrap.servers"] == "said:1"


def test_without_a_name_there_is_no_converter(gathered: Gather) -> None:
    assert gathered(ConverterOptions()).converters == {}


def test_whoever_names_a_converter_configures_it(gathered: Gather, file: Path) -> None:
    gathered.workers.on("GET", CONFIG, (200, {"value.converter": "JsonConverter"}))
    of_file = gathered(ConverterOptions(worker=file)).converters["value"]
    assert isinstance(of_file, JsonConverter)
    assert of_file.config[SCHEMAS_ENABLE] is False
    named = ConverterOptions(worker=file, connector="orders")
    assert gathered(named).converters["value"].config[SCHEMAS_ENABLE] is True
    pairs = ("value.converter.schemas.enable=false",)
    more = ConverterOptions(worker=file, connector="orders", pairs=pairs)
    assert gathered(more).converters["value"].config[SCHEMAS_ENABLE] is False
    said = ConverterOptions(worker=file, converters={"value": "StringConverter"})
    assert isinstance(gathered(said).converters["value"], StringConverter)


def test_clients_connect_as_the_worker_and_the_connector_say(gathered: Gather, file: Path) -> None:
    java = gathered(ConverterOptions(worker=file)).java
    assert java["security.protocol"] == "SASL_PLAINTEXT"
    assert java["max.poll.records"] == "5"
    assert "value.converter" not in java
    gathered.workers.on(
        "GET",
        CONFIG,
        (200, {"consumer.override.security.protocol": "SSL", "consumer.override.group.id": "x"}),
    )
    java = gathered(
        ConverterOptions(worker=file, connector="orders", pairs=("ssl.truststore.type=PEM",))
    ).java
    assert java["security.protocol"] == "SSL"
    assert java["ssl.truststore.type"] == "PEM"
    assert "group.id" not in java
    with_producer = gathered(ConverterOptions(worker=file, connector="orders"), "producer").java
    assert with_producer["security.protocol"] == "SSL"
    assert "max.poll.records" not in with_producer


def test_secrets_are_looked_up_here_if_they_can_be(
    gathered: Gather, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "of-the-secret:9092")
    config = {"consumer.override.bootstrap.servers": "${env:PLACE}", "password": "${file:/x:y}"}
    gathered.workers.on("GET", CONFIG, (200, config))
    found = gathered(ConverterOptions(worker=file, connector="orders"))
    assert found.bootstrap == "of-the-secret:9092"
    with pytest.raises(Unusable, match=r"'consumer.override.bootstrap.servers' of the connector"):
        gathered(ConverterOptions(connector="orders"))


def test_a_wrong_setting_is_named(gathered: Gather, file: Path) -> None:
    with pytest.raises(NotThere, match=r"There is no converter 'Nope' here \(value.converter\)"):
        gathered(ConverterOptions(converters={"value": "Nope"}))
    with pytest.raises(Unusable, match=r"--set key.converter.a=… needs a converter"):
        gathered(ConverterOptions(worker=file, pairs=("key.converter.a=1",)))


def test_options_are_checked_before_anything_is_asked(penstock: Penstock) -> None:
    result = penstock("read", "t", "--from", "yesterday")
    assert result.code == 2
    assert "--from 'yesterday' is not a position in a topic." in result.err
    result = penstock("write", "t", "--format", "json", "--key-separator", ":")
    assert result.code == 2
    assert "--key-separator requires --format line" in result.err
    assert penstock("read", "t", "--connector", "nope").code in (5, 8)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(From.EARLIEST)),
        ("Latest", Start(From.LATEST)),
        ("42", Start(From.OFFSET, 42)),
        ("-10", Start(From.BACK, 10)),
        ("90s", Start(From.TIME, 10_000)),
        ("1970-01-01T00:01:00", Start(From.TIME, 60_000)),
        ("1970-01-01T01:01:00+01:00", Start(From.TIME, 60_000)),
        ("1970-01-02", Start(From.TIME, 86_400_000)),
    ],
)
def test_from_says_where_reading_begins(text: str, start: Start) -> None:
    assert start_of(text, 100_000) == start


def test_a_setting_that_no_client_has_is_refused_if_the_command_line_names_it(
    gathered: Gather, file: Path
) -> None:
    of_file = gathered(ConverterOptions(worker=file))
    assert "max.poll.records" not in of_file.client(clients.consumer(of_file.java))
    said = gathered(ConverterOptions(pairs=("max.pol.records=5",)))
    with pytest.raises(Unusable, match=r"--set max\.pol\.records: the Kafka client"):
        said.client(clients.consumer(said.java))


def test_a_value_that_the_client_refuses_is_named(penstock: Penstock) -> None:
    result = penstock("read", "t", "--set", "security.protocol=CARRIER_PIGEON")
    assert result.code == 2
    assert "security.protocol" in result.err
    assert "--set" in result.err
