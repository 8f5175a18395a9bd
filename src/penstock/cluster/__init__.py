"""State and decisions of a Connect cluster: pure functions over frozen values.

- Nothing here reads a clock, rolls dice, logs, or opens anything; time is an `int` argument in
  milliseconds.
- State changes when a record is read back from its topic, not when it is sent.
- Bytes written here equal those of the JVM worker; bytes read here may come from any version.
- A record to skip is a value that says why (`Skipped`); the shell logs it.
"""
