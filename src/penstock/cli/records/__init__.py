"""`penstock read` and `penstock write`: the records of a topic, as lines.

commands   the two commands
settings   Kafka's address, the clients' settings and the converters: who says which
sides      keys, values and headers between Kafka's bytes and what a line holds
lines      records as lines of JSON or text, and back
letters    what a dead letter says of its failure
reading    a topic's records from one place to another
writing    records into a topic
"""
