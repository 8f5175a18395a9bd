"""Spark's Python daemon, with what every stage needs imported before it forks.

Spark runs this module instead of its own (`spark.python.daemon.module`); each Python worker is a
fork of it and finds these modules loaded, and their memory shared.
"""

import pyspark.daemon

import penstock.flow.datasource
import penstock.flow.stage  # noqa: F401

if __name__ == "__main__":
    pyspark.daemon.manager()
