"""python -m runner.environments [cpu|cuda]: make every framework's environment."""

import sys

from runner.environments.definition import main

sys.exit(main(sys.argv[1:]))
