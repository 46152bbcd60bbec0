"""Frameworks: a folder for each, found by its name, holding adapter.py and environment.toml."""

import os

# A worker also looks for `adapters.NAME` in the folder of `--adapters`.
__path__ += filter(None, [os.environ.get("BATCHWISE_ADAPTERS")])
