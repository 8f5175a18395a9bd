"""What docs/performance.md reports, measured: `make bench`, or `python -m benchmarks --help`.

`inputs` says what goes in and what has to come out, `watching` and `probe` take the measurements,
`runtimes` starts the workers that are compared, `scenarios`, `quiet` and `databases` list what is
measured, `report` turns figures into a table and a file.
"""
