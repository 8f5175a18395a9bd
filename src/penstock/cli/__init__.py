"""The command `penstock`: runs workers, manages running ones over REST, reads and writes topics.

    app        the commands by section; one place turns errors into messages and exit codes
    running    distributed, standalone, broker, demo, jars
    container  container: the entry point of the image
    connectors load, create, update, patch, delete, config, validate, diff
    apply      apply: all connectors that files describe (`resources` reads them)
    control    status, wait, pause, resume, stop, restart
    records    read, write: the records of a topic
    plugins    doctor, new: plugins on this machine, not on a running worker
    views      list, topics, offsets, logs, health, clusters, completion

`start` runs a worker as a process, `service` reports it to the service manager.

Beneath them: `session` (common options), `clusters` (which workers), `rest` (paths, shapes,
errors), `client` (requests), `files`, `differences`, `states`, `show` (tables, masks), `exits`.
"""

from penstock.cli.app import main

__all__ = ["main"]
