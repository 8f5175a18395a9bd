"""MQTT source and sink: messages as records, and records as messages (connectors.md §9).

Imports point down:

    source, sink   the connectors, under the names of Confluent's and Lenses'
    validation     checks of a configuration against the broker
    settings       the settings, and the plans and options they describe
    read, write    messages into records, records into messages
    client         connections to a broker; packets, topics and properties

`settings` and `validation` can be imported without paho-mqtt.
"""
