"""Cassandra source and sinks: tables as topics, and topics as tables (connectors.md §7).

Imports point down:

    source, sink   the connectors, under the names of DataStax's and Lenses'
    validation     checks of a configuration against the cluster
    settings       the settings, and the plans they describe
    read, write    rows into records, records into statements
    client         connections and the meaning of errors; `text`: CQL names and values as text

`settings` and `validation` can be imported without the driver.
"""
