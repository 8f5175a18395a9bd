"""The calls of Couchbase's SDK, and what its errors mean."""
