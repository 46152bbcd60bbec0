"""The command line: what is asked for, planned, shown."""
