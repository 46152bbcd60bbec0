"""From the words of a command line to a checked request, and to the plan of its trials."""
