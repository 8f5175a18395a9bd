"""`penstock preview` of a sink against a real topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.app import run
from penstock.cli.session import CommandSession
from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics

Preview = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def preview(broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Preview:
    """Runs the command for a sink to a folder."""

    def command(*args: str, **settings: object) -> tuple[int, list[str], str]:
        config = {
            "connector.class": "io.penstock.files.LocalFileSinkConnector",
            "store.url": str(tmp_path / "files"),
            "format.class": "JsonFormat",
            "value.converter.schemas.enable": "false",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **{name.replace("__", "."): str(value) for name, value in settings.items()},
        }
        file = tmp_path / "connector.json"
        file.write_text(json.dumps({"name": "c", **config}))
        environ = {"PENSTOCK_BOOTSTRAP_SERVERS": broker.bootstrap}
        code = run(["preview", str(file), *args], CommandSession(environ=environ))
        out, err = capfd.readouterr()
        return code, out.splitlines(), err

    return command


def test_the_names_of_the_files_are_shown_and_none_is_written(
    preview: Preview, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("orders"), 2)
    topics.append(topic, [json.dumps({"id": n}).encode() for n in range(25)], partition=0)
    topics.append(topic, [b'{"id": 1}'] * 3, partition=1)
    code, lines, err = preview(topics=topic, flush__size=10)
    assert code == 0, err
    root = f"topics/{topic}/partition="
    assert sorted(lines) == [
        f"{root}0/{topic}+0+0000000000.json\t10 records, offsets 0 to 9, 90 bytes",
        f"{root}0/{topic}+0+0000000010.json\t10 records, offsets 10 to 19, 100 bytes",
        f"{root}0/{topic}+0+0000000020.json\topen: it waits for more records",
        f"{root}1/{topic}+1+0000000000.json\topen: it waits for more records",
    ]
    assert "28 records read" in err
    assert "nothing was written" in err
    assert not (tmp_path / "files").exists()


def test_rows_and_the_beginning_count_for_each_partition(
    preview: Preview, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = topics.create(unique("orders"), 2)
    for partition in (0, 1):
        topics.append(topic, [b'{"id": 1}'] * 30, partition=partition)
    code, lines, err = preview("--rows", "5", "--from", "-20", topics=topic, flush__size=5)
    assert code == 0, err
    assert sorted(line.split("\t")[1] for line in lines) == [
        "5 records, offsets 10 to 14, 45 bytes",
        "5 records, offsets 10 to 14, 45 bytes",
    ]


def test_a_record_that_is_refused_ends_it_unless_errors_are_tolerated(
    preview: Preview, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = topics.create(unique("orders"))
    topics.append(topic, [b'{"country": "de"}', b'{"id": 1}', b"no JSON", b'{"country": "fr"}'])
    fields = {
        "topics__regex": f"{topic}.*",
        "flush__size": 2,
        "partitioner__class": "FieldPartitioner",
        "partition__field__name": "country",
    }
    code, _, err = preview(**fields)
    assert code == 4
    assert f"would fail at {topic}-0 offset 2" in err
    code, lines, err = preview(**fields, errors__tolerance="all")
    assert code == 0, err
    assert [line.split("/")[2] for line in lines] == ["country=de", "country=fr"]
    assert "2 of them refused" in err


def test_a_sink_without_a_preview_and_a_topic_that_does_not_exist_are_reported(
    preview: Preview, unique: Callable[[str], str], tmp_path: Path
) -> None:
    code, _, err = preview(connector__class="FileStreamSink", topics="t", file=tmp_path / "out")
    assert code == 2
    assert "without a preview" in err
    topic = unique("missing")
    code, _, err = preview(topics=topic, flush__size=2)
    assert code == 5
    assert f"There is no topic '{topic}'" in err
