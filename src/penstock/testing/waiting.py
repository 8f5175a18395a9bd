"""Waiting for a condition: bounded, and clear about what did not happen."""

from penstock.host.waiting import wait_until

__all__ = ["wait_until"]
