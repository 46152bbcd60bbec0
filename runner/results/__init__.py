"""From a trial's files to its result."""
