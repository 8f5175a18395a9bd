"""`penstock container`: a worker in a container, configured by variables as Confluent's and
Debezium's images are.

    command    the command; the order of the steps at the start
    variables  variables -> a worker's settings, log settings, what is missing. Pure
    memory     the container's memory limit, and the heap that fits
    machine    missing requirements of the container: one message each
    starting   waits for Kafka; applies connectors once the worker is healthy; the health check
"""

from penstock.cli.container.command import container

__all__ = ["container"]
