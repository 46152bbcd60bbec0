"""Make the table of docs/evidence/largest.md: the real search of the real frameworks, under real limits of memory.

    python tests/benchmarks/measure_largest.py RESULTS LIMIT_MIB ...

Each answer is then checked by one more trial of its size and one of the next size, which the search did not see. A
second run with the same RESULTS uses what is stored.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from runner.batch_size.largest import Bound  # noqa: E402
from runner.batch_size.memory_limit import ANSWERS, bound_request, find_limit, largest_of  # noqa: E402
from runner.batch_size.steps import StepTrials  # noqa: E402
from runner.project import Project  # noqa: E402
from runner.request import cli, inputs, own_data, parser  # noqa: E402
from runner.setup import collect_installations, make_environments  # noqa: E402

WORDS = ("--device", "cpu", "--threads", "1", "--workload", "osu-cnn", "--dataset", "digits")
SHORT = ("--window", "0.3", "--timeout", "120")


def step_trials(results: Path, limit_mib: int, framework: str) -> tuple[Bound, StepTrials]:
    """Make trials under this limit of private memory: a control group would kill a worker that could say what it was
    refused."""
    words = ["--framework", framework, *WORDS, *SHORT, "--memory-limit", str(limit_mib), "--results", str(results)]
    request = own_data.prepare_images(
        cli.build_request(parser.run_parser().parse_args(words), Project.of_this_code()), Console()
    )
    request = replace(request, placement=replace(request.placement, control_group=False))
    bound = Bound(*find_limit(request))
    request = bound_request(request, bound.limit, bound.limit_bytes)
    repeats = inputs.write_repeats(request, inputs.write_data(request, Console()), range(1))
    return bound, StepTrials.prepare(
        request, collect_installations(request), repeats, make_environments(request, Console())
    )


def measured(results: Path, limit_mib: int, framework: str) -> str:
    """Run one search; return its row of the table."""
    began_s = time.monotonic()
    bound, trials = step_trials(results, limit_mib, framework)
    answer = largest_of(trials, framework, bound)
    seconds = time.monotonic() - began_s
    again = []
    if answer.batch_size is not None:
        sizes = [size for size in (answer.batch_size, answer.batch_size + 1) if size]
        again = [f"{size}: {trials.run(framework, size, ANSWERS)[0].status}" for size in sizes]
    size = "none" if answer.batch_size is None else answer.batch_size
    cells = (framework, limit_mib, size, len(answer.tried), f"{seconds:.0f}", ", ".join(again), answer.reason or "")
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    print(
        "| framework | limit, MiB | largest | trials | s | tried again | why not exact |\n|---|---|---|---|---|---|---|"
    )
    for limit in map(int, sys.argv[2:]):
        for name in ("mxnet", "pytorch", "tensorflow"):
            print(measured(Path(sys.argv[1]), limit, name), flush=True)
