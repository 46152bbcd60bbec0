"""HOW one framework does it: a folder per framework, found by its place, holding adapter.py and environment.toml."""
