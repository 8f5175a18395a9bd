"""Elasticsearch and OpenSearch: topics as documents of indices and data streams, and back.

Imports point down:

    sink, source   the connectors; sinks under the names of Confluent's and Aiven's
    validation     what a cluster says of a configuration
    settings       what configurations may say, as plans and options
    write, read    records as documents, bulk requests, what the cluster refuses; documents as
                   records, shard by shard
    client         requests to a cluster, and what went wrong with them
"""
