"""English names of months, days of the week, eras and halves of the day."""

from __future__ import annotations

from typing import Final

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS: Final = (*("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),)
ERAS: Final = ("BC", "AD")
HALVES: Final = ("AM", "PM")
