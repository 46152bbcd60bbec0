"""The networks that come with the project: one file each, found in this folder (`workloads/networks.py`)."""
