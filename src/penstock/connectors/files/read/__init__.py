"""Files that become records: which there are, how far each was read, and what is done with it
after. `names`, `ledger` and `scan` decide; `reader` does."""
