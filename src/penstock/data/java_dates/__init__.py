"""Dates and times as text, by the patterns of Java's `SimpleDateFormat`.

A `DateFormat` writes and leniently reads what `new SimpleDateFormat(pattern)` does on a JVM that
speaks English and keeps UTC: all its letters and quoting, the Julian calendar before 15 October
1582, weeks that begin on Sunday, numbers out of range that carry over ("2024-13-41"), and text
after what the pattern needs, which is ignored. Moments are ms since the epoch, of any size.

Three things are missing: names of time zones other than those in `reading`, when reading;
that Java, having read such a name, goes on to write in that zone; and what a year of weeks (Y)
means beside a year or an era.

Nothing here reads the clock; what "89" means as a year depends on `now_ms`.
"""

from penstock.data.java_dates.format import DateFormat
from penstock.data.java_dates.patterns import PatternInvalid
from penstock.data.java_dates.reading import Unparseable

__all__ = ["DateFormat", "PatternInvalid", "Unparseable"]
