"""Couchbase: topics as documents of collections, and documents as records.

Imports point down:

    source | sink  the connectors, under the names of Couchbase's own
    validation     what a cluster says of a configuration
    read           documents that have changed, found by polling with SQL++
    write          records as documents, sub-documents and statements
    settings       what configurations may say, as plans
    client         keyspaces, the calls of the SDK, and what its errors mean
"""
