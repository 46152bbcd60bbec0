"""python -m runner.sampler SAMPLES_CSV [GPU_UUID]: the sampler, a process of its own."""

import sys
from pathlib import Path

from runner.sampler.meter import main

main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
