"""Records that are made up: for demos, load tests and benchmarks.

`patterns` and `makers` make values, column by column, of an Avro schema with annotations;
`quickstarts` has such schemas; `source` sends them. Which values record N of a task has depends on
the seed, the task and N alone, so a source that is killed goes on with the very same records.
"""
