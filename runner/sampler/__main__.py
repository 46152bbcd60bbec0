"""python -m runner.sampler: the sampler, a separate process, which waits for a request on standard input."""

import json
import os
from pathlib import Path

from runner.sampler.meter import main
from runner.sampler.owner import read_line

if asked := read_line():  # nothing: the runner has ended, or no longer needs it
    request = json.loads(asked)
    os.dup2(os.open(request["errors"], os.O_WRONLY | os.O_APPEND), 2)
    main(Path(request["samples"]), request["gpus"])
