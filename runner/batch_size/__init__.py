"""Find batch sizes: the searches of `python -m runner batch-size`, and their measurements."""
