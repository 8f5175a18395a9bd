"""The machine: jars, processes, logs, certificates."""
