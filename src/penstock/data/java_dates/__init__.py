"""Dates and times as text, by the patterns of Java's `SimpleDateFormat`.

A `DateFormat` writes and leniently reads what `new SimpleDateFormat(pattern)` does on a JVM with
the English locale and UTC: all its letters and quoting, the Julian calendar before 15 October 1582,
weeks that begin on Sunday, numbers out of range that carry over ("2024-13-41"), and ignored text
after what the pattern needs. Moments are ms since the epoch, of any size.

Three things are missing: reading names of time zones other than those in `reading`; that Java,
after reading such a name, writes in that zone; and the meaning of a week year (Y) beside a year or
an era.

Nothing here reads the clock; the meaning of "89" as a year depends on `now_ms`.
"""

from penstock.data.java_dates.format import DateFormat
from penstock.data.java_dates.patterns import PatternInvalid
from penstock.data.java_dates.reading import Unparseable

__all__ = ["DateFormat", "PatternInvalid", "Unparseable"]
