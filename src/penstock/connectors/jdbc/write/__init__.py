"""How records become rows of tables, and what each database is told for it."""
