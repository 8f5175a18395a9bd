"""Code that sinks of keyed documents share: which writes of a key to execute, how many are sent
together, and Debezium's change events. Functions over values, independent of the store."""
