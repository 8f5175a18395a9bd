"""JDBC source and sink: tables of relational databases as topics, and topics as tables.

Imports point down:

    source, sink   the connectors
    validation     checks a configuration against the database
    read, write    rows to records, records to rows; what differs between databases
    settings       the configuration keys, and the rules between them
    drivers        URLs, connections, the meaning of errors; `jvm` runs JDBC drivers
"""
