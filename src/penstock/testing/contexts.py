"""Task contexts without an engine; see `penstock.plugins.contexts`."""

from penstock.plugins.contexts import ConsumedFrom, SinkContextStub, SourceContextStub

__all__ = ["ConsumedFrom", "SinkContextStub", "SourceContextStub"]
