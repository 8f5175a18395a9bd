"""Elasticsearch and OpenSearch: topics as documents of indices and data streams.

Imports point down:

    sink           the connectors, under the names of Confluent's and Aiven's
    validation     what a cluster says of a configuration
    settings       what configurations may say, as a plan and options
    write          records as documents, bulk requests, what the cluster refuses
    client         requests to a cluster, and what went wrong with them
"""
