"""HTTP: topics as requests, and answers, events and requests of others as topics.

Imports point down:

    sink, source, stream     the connectors
    settings                 what configurations may say, as plans and options
    write, read, live        records as requests; polled answers as records; what arrives by itself
    templates, pointers      texts with placeholders, places in JSON
    client                   requests, authentication, and what went wrong with them
"""
