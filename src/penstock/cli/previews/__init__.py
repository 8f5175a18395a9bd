"""The command `preview`: what a connector would send or write, without a cluster."""

from penstock.cli.previews.command import preview
from penstock.cli.previews.source import short

__all__ = ["preview", "short"]
