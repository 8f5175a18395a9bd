"""Generated records, for demos, load tests and benchmarks.

`patterns` and `makers` make values, column by column, for an Avro schema with annotations;
`quickstarts` has such schemas; `source` sends the records. The values of record N of a task depend
only on the seed, the task and N, so a source that was killed continues with the same records.
"""
