"""Files that become records: which files exist, how far each was read, and what happens to it
afterwards. `names`, `ledger` and `scan` decide; `reader` executes."""
