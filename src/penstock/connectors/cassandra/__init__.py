"""Cassandra source and sinks: tables as topics, and topics as tables (connectors.md §7).

Imports point down:

    source, sink   the connectors, under the names of DataStax's and Lenses'
    validation     what a look at the cluster says of a configuration
    settings       what configurations may say, as plans
    read, write    rows into records, records into statements
    client         connections, what errors mean; `text`: CQL's names and values as text

What `settings` and `validation` import at the top can be imported without the driver.
"""
