"""Redis sinks and sources: topics as keys, streams as topics (connectors.md §8).

Imports point down:

    source, sink   the connectors, under the names of jcustenborder's, Redis' and Lenses'
    validation     checks of a configuration against the server
    settings       the settings, and the plans and connection parameters they describe
    read, write    streams and keys into records, records into commands
    client         URIs, connections, pipelines, and the meaning of errors

`settings` and `validation` can be imported without redis-py.
"""
