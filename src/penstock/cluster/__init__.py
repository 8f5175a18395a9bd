"""What a Connect cluster knows and decides: pure functions over frozen values.

- Nothing here reads a clock, rolls dice, logs, or opens anything; time is an `int` argument in
  milliseconds.
- State changes when a record is read back from its topic, not when it is sent.
- Bytes written here equal those of the JVM worker; bytes read here may come from any version.
- What must be skipped is a value that says why (`Skipped`); the shell around us logs it.
"""
