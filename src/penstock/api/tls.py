"""Java's `ssl.*` settings as a Python TLS context, of a client or a server, for connectors that
are configured with them."""

from penstock.host.tls import TlsSettings, client_context, server_context

__all__ = ["TlsSettings", "client_context", "server_context"]
