"""What docs/performance.md reports, measured: `make bench`, or `python -m benchmarks [NAME …]`."""
