"""MongoDB source and sink: collections as topics, and topics as collections (connectors.md §6).

Imports point down:

    source, sink   the connectors
    validation     checks of a configuration against the server
    read, write    turn change events into records, and records into writes
    settings       the settings of configurations
    client         connections and errors; `text`: JSON as MongoDB's shell writes it

`settings` and `validation` can be imported without pymongo.
"""
