"""Pushed data: server-sent events, WebSocket messages and webhook requests."""
