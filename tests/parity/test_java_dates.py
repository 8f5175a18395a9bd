"""Java's SimpleDateFormat still writes and reads as the golden file says.

Run as a program, this rewrites the file: `python -m tests.parity.test_java_dates`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JJavaError

from tests.places import TESTS

from .date_cases import NOW_MS, moments, patterns, spoiled
from .jvm import KafkaConnect, thrown
from .typed import Json

GOLDEN: Final = TESTS / "golden" / "java_dates.jsonl.gz"


def answers(connect: KafkaConnect) -> Iterator[Json]:
    """A line per pattern: what is wrong with it, or the text of each moment and the moment (ms, or
    null) that each text is read as."""
    java = connect.gateway.jvm.java
    utc = java.util.TimeZone.getTimeZone("UTC")
    start = java.util.GregorianCalendar(utc)
    start.setTimeInMillis(NOW_MS)
    start.add(java.util.Calendar.YEAR, -80)
    for pattern in patterns():
        try:
            format = java.text.SimpleDateFormat(pattern)
        except Py4JJavaError as error:
            yield {"pattern": pattern, "wrong": thrown(error)[1]}
            continue
        format.set2DigitYearStart(start.getTime())
        written: list[Json] = []
        read: list[Json] = []
        for ms in moments(pattern):
            format.setTimeZone(utc)
            text = format.format(java.util.Date(ms))
            written.append([ms, text])
            for given in dict.fromkeys((text, spoiled(text, 1), spoiled(text, 2))):
                format.setTimeZone(utc)  # parsed zone names change it
                try:
                    read.append([given, format.parse(given).getTime()])
                except Py4JJavaError:
                    read.append([given, None])
        yield {"pattern": pattern, "written": written, "read": read}


def test_the_golden_file_is_what_java_answers() -> None:
    golden = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]
    with KafkaConnect.started() as connect:
        assert golden == json.loads(json.dumps(list(answers(connect))))


if __name__ == "__main__":
    with KafkaConnect.started() as running:
        lines = [json.dumps(line, ensure_ascii=False) + "\n" for line in answers(running)]
        GOLDEN.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
