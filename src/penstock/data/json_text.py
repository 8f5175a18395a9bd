"""JSON in texts of schemas."""

from __future__ import annotations

import json
from typing import Any


def compact(value: Any, *, sort: bool = False) -> str:
    """JSON without blanks, non-ASCII characters unescaped. Raises ValueError for cycles."""
    return json.dumps(value, separators=(",", ":"), sort_keys=sort, ensure_ascii=False)
