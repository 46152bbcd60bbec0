"""Whether this machine can measure, and what to do where it cannot."""
