"""Code that sinks of keyed documents share: which writes of a key count, how many are sent
together, and Debezium's change events. Functions over values; they know no store."""
