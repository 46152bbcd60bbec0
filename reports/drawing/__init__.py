"""Draw charts as pictures. matplotlib's list of fonts is kept with the environments, not in the user's home."""

import os
from pathlib import Path

os.environ["MPLCONFIGDIR"] = str(Path(__file__).resolve().parents[2] / ".envs" / ".matplotlib")
