"""python -m runner.sampler: the sampler, a process of its own, which waits on standard input to be asked."""

import json
import os
from pathlib import Path

from runner.sampler.meter import main
from runner.sampler.owner import line

if asked := line():  # nothing: the runner has ended, or needs it no more
    request = json.loads(asked)
    os.dup2(os.open(request["errors"], os.O_WRONLY | os.O_APPEND), 2)
    main(Path(request["samples"]), request["gpus"])
