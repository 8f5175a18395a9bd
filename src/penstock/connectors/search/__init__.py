"""Elasticsearch and OpenSearch: topics as documents of indices and data streams, and back.

Imports point down:

    sink, source   the connectors; sinks under the names of Confluent's and Aiven's
    validation     checks of a configuration against the cluster
    settings       the settings of configurations, as plans and options
    write, read    records as documents, bulk requests, refusals of the cluster; documents as
                   records, shard by shard
    client         requests to a cluster, and their errors
"""
