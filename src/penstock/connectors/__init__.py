"""Built-in connectors, which use only `penstock.api`, like everyone else's."""
