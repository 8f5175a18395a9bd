"""Dates and times as text, by the patterns of Java's `SimpleDateFormat`.

>>> DateFormat("yyyy-MM-dd HH:mm").parse("2026-01-31 12:30")
1769862600000
"""

from penstock.data.java_dates import DateFormat, PatternInvalid, Unparseable

__all__ = ["DateFormat", "PatternInvalid", "Unparseable"]
