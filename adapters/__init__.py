"""HOW one framework does it: a folder per framework, found by its place, holding adapter.py and environment.toml."""

import os

# A worker looks for `adapters.NAME` in the folder of `--adapters`, too.
__path__ += filter(None, [os.environ.get("BATCHWISE_ADAPTERS")])
