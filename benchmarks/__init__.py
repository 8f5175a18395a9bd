"""What docs/performance.md reports, measured: `make bench`, or `python -m benchmarks --help`.

`inputs` makes the records and checks the outcome, `watching` and `probe` take the measurements,
`runtimes` starts the workers that are compared, `scenarios`, `quiet` and `databases` list the
measurements, `report` turns figures into a table and a file.
"""
