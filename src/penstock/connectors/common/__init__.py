"""What connectors of several families share; imports only `penstock.api`."""
