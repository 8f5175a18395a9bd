"""Couchbase: topics as documents of collections, and documents as records.

Imports point down:

    source | sink  the connectors, under the names of Couchbase's own
    validation     checks of a configuration against the cluster
    read           changed documents, by polling with SQL++
    write          records as documents, sub-documents and statements
    settings       the settings of configurations, as plans
    client         keyspaces, the calls of the SDK, and its errors
"""
