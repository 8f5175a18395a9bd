"""The Spark job of a slot: one task, whose frames go from the JVM to a stage in Python as they are.

Its elements are bytes, so that Spark's Python runner sends each frame with its length, and SQL is
never started: its session and the planning of a query would take half of the CPU time of a
worker's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def run(context: SparkContext, stage: Callable[[Iterable[bytes]], Iterator[bytes]]) -> None:
    """Runs a slot's job to its end; blocks. Raises what ended it otherwise."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    jvm: Any = context._jvm
    java_context: Any = context._jsc
    reading = java_context.parallelize([0], 1).mapPartitions(jvm.penstock.SlotReading())
    frames: RDD[bytes] = RDD(reading, context, NoOpSerializer())
    frames.mapPartitions(stage)._jrdd.count()
