"""The measurements of docs/performance.md: `make bench`, or `python -m benchmarks --help`.

`inputs` generates the records and checks the outcome, `watching` and `probe` measure, `runtimes`
starts the workers that are compared, `scenarios`, `quiet` and `databases` list the measurements,
`report` turns figures into a table and a file.
"""
