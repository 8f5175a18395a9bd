"""The calls of Couchbase's SDK, and its errors."""
