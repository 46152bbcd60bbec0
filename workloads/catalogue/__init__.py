"""The networks that come with the project: one file each, found by its place (`workloads/networks.py`)."""
