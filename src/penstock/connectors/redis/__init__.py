"""Redis sinks and sources: topics as keys, streams as topics (connectors.md §8).

Imports point down:

    source, sink   the connectors, under the names of jcustenborder's, Redis' and Lenses'
    validation     what a look at the server says of a configuration
    settings       what configurations may say, as plans and as access to servers
    read, write    streams and keys into records, records into commands
    client         URIs, connections, pipelines, and what errors mean

What `settings` and `validation` import at the top can be imported without redis-py.
"""
