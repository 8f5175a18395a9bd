"""Connections to a broker, based on paho-mqtt; packets, topics and properties."""
