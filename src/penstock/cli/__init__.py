"""The command `penstock`: runs workers, and asks running ones, whoever made them, over REST.

    app        the commands by section; one place turns errors into messages and exit codes
    running    distributed, standalone, broker, demo, jars
    connectors load, create, update, patch, delete, config, validate, diff
    control    status, wait, pause, resume, stop, restart
    plugins    doctor, new: what is found here, not on a running worker
    views      list, topics, offsets, logs, health, clusters, completion

Beneath them: `session` (what the options say), `clusters` (whom to ask), `rest` (paths, shapes,
refusals), `client` (asks), `files`, `differences`, `states`, `show` (tables, masks), `exits`.
"""

from penstock.cli.app import main

__all__ = ["main"]
