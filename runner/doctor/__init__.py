"""Check if this machine can measure, and say what to do where it cannot."""
