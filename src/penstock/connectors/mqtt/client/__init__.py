"""Connections to a broker, on paho-mqtt; packets, topics and properties as values."""
