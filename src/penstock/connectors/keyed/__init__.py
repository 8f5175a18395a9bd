"""What sinks into stores of keyed documents share: which writes of a key count, how many go
together, and what Debezium's change events say. Functions over values; they know no store."""
