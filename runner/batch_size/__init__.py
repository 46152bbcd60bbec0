"""Which batch size: the searches behind `python -m runner batch-size`, and what they measure with."""
