"""What a process needs of its machine: jars, other processes, log files, certificates."""
