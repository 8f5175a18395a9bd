"""The demo: a real file through Kafka into another file, on a distributed worker of its own."""

from penstock.demo.run import run_demo

__all__ = ["run_demo"]
