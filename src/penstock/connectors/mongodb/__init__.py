"""MongoDB source and sink: collections as topics, and topics as collections (connectors.md §6).

Imports point down:

    source, sink   the connectors
    validation     what a look at the server says of a configuration
    read, write    change events into records, records into writes
    settings       what configurations may say
    client         connections, what errors mean; `text`: JSON as MongoDB's shell writes it

What `settings` and `validation` import at the top can be imported without pymongo.
"""
