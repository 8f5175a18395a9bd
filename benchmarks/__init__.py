"""What docs/performance.md reports, measured: `make bench`, or `python -m benchmarks --help`.

`inputs` says what goes in and what has to come out, `watching` takes the measurements, `runtimes`
starts the workers that are compared, `scenarios` is the list of what is measured, `report` turns
figures into a table and a file.
"""
