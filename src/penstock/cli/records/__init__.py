"""`penstock read` and `penstock write`: the records of a topic, as lines.

commands   the two commands
settings   Kafka's address, the clients' settings and the converters: where each comes from
sides      keys, values and headers between Kafka's bytes and what a line holds
lines      records as lines of JSON or text, and back
letters    the failure that a dead letter describes
reading    a topic's records from one position to another
writing    records into a topic
"""
