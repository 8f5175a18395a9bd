"""Built-in connectors, written only against `penstock.api`, as a stranger would write them."""
