"""Charts as pictures. matplotlib keeps its list of fonts beside the environments, not in the user's home."""

import os
from pathlib import Path

os.environ["MPLCONFIGDIR"] = str(Path(__file__).resolve().parents[2] / ".envs" / ".matplotlib")
