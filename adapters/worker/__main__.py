"""python -m adapters.worker TRIAL_DIR: one trial."""

import sys
from pathlib import Path

from adapters.worker.loop import main

main(Path(sys.argv[1]).resolve())
