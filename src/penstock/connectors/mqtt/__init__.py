"""MQTT source and sink: messages as records, and records as messages (connectors.md §9).

Imports point down:

    source, sink   the connectors, under the names of Confluent's and Lenses'
    validation     what a broker says of a configuration
    settings       what configurations may say, as plans and options
    read, write    messages into records, records into messages
    client         connections to a broker; packets, topics and properties

What `settings` and `validation` import at the top can be imported without paho-mqtt.
"""
