"""JDBC source and sink: tables of relational databases as topics, and topics as tables.

Imports point down:

    source, sink   the connectors
    validation     what a look at the database says of a configuration
    read, write    rows into records, records into rows; what each database does its own way
    settings       what configurations may say
    drivers        URLs, connections, what errors mean; `jvm` runs JDBC drivers
"""
