"""python births.py FOLDER SEED COUNT: workers whose runner gets a signal at their birth, one after the other.

Each case is a fork that runs `run_worker` with a worker and a sampler that are shell scripts, so that hundreds cost
seconds. The worker leaves a child process in its group. All processes of a case have MARK in their environments. Prints
a line of JSON for each: what was done, when, and whether the worker had begun.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from conftest import PROJECT, make_spec

from runner import launch
from runner.launch import Local, run_worker
from workloads.records.job import Job, Kind

MARK = "BATCHWISE_BIRTH"
LATEST_S = 0.010
WORKER = '#!/bin/sh\nsleep 600 &\necho begun > "$3/begun"\nwait\n'
SAMPLER = """\
#!/bin/sh
read asked
path=${asked#*: \\"}
echo $$ > "${path%%\\"*}.pid"
echo ready
while read line; do :; done
"""
BOTH = "SIGKILL of both"


def runner(folder: Path, scripts: Path, born: int) -> None:
    """Run in a fork: write to `born` at the worker's birth, before anything else can know of it."""
    real = subprocess._fork_exec  # type: ignore[attr-defined]

    def fork_exec(*arguments: Any) -> Any:
        pid = real(*arguments)
        if "-S" in arguments[0]:  # the worker's, and not the sampler's
            os.write(born, b"\n")
        return pid

    subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the runner does
    launch.SAMPLER = (str(scripts / "sampler"),)  # type: ignore[assignment]
    local = Local(str(scripts / "worker"), {MARK: os.environ[MARK]}, PROJECT)
    run_worker(folder, Job(Kind.TRIAL, make_spec(threads=1)), local)


def case(number: int, name: str, at_s: float, folder: Path) -> dict[str, Any]:
    """Run one case; the runner is dead when this returns. Every other four of them begin first."""
    trial = folder / f"trial-{number}"
    trial.mkdir()
    heard, born = os.pipe()
    os.environ[MARK] = f"{folder}-{number}"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            runner(trial, folder, born)
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    os.close(born)
    os.read(heard, 1)
    while number % 8 >= 4 and not (trial / "begun").exists():
        time.sleep(0.0005)
    until_s = time.perf_counter() + at_s
    while time.perf_counter() < until_s:
        pass
    if name == BOTH:
        for both in (int((trial / "samples.csv.pid").read_text()), pid):
            os.kill(both, signal.SIGKILL)
    else:
        os.kill(pid, signal.Signals[name])
    _, status = os.waitpid(pid, 0)
    os.close(heard)
    code = os.waitstatus_to_exitcode(status)
    return {"name": name, "at_s": at_s, "code": code, "begun": (trial / "begun").exists()}


def main(folder: Path, seed: int, count: int) -> None:
    """Send signals in turn, at random times."""
    draw = random.Random(seed)
    for name, text in (("worker", WORKER), ("sampler", SAMPLER)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    names = ("SIGINT", "SIGTERM", "SIGKILL", BOTH)
    for number in range(count):
        print(json.dumps(case(number, names[number % len(names)], draw.uniform(0, LATEST_S), folder)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
