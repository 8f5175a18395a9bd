"""The demo: a real file through Kafka into another file, on its own distributed worker."""

from penstock.demo.run import run_demo

__all__ = ["run_demo"]
