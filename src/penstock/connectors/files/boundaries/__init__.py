"""Where files begin and end, and what they are called: functions of the records alone."""
