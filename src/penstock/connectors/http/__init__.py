"""HTTP: topics as requests; and responses, events and incoming requests as topics.

Imports point down:

    sink, source, stream     the connectors
    settings                 the settings, and the plans and options they describe
    write, read, live        records as requests; polled responses as records; pushed messages
    templates, pointers      strings with placeholders, JSON pointers
    client                   requests, authentication, and errors
"""
