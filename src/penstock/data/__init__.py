"""Connect's data model: schemas, values and the batch of records that flows."""
