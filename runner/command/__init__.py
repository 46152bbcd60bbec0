"""The command line: reading a request, planning and showing trials."""
