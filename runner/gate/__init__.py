"""Whether every framework computes the same."""
