"""python tests/benchmarks/measure_sweep.py [--trials 100] [--nodes 3] [--seconds 2]: measure the cost of handing out.

As many trials, which sleep in place of training, are tasks of real raylets on this machine. They go through the whole
path: Ray, parcel, results folder, gate. Printed: efficiency (the time of the trials divided by nodes times wall time),
the driver's time per trial, and its memory.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from runner.cluster import ray_engine  # noqa: E402
from runner.cluster.node import Parcel  # noqa: E402
from runner.cluster.sweep import Sweep  # noqa: E402
from runner.launch import Unavailable  # noqa: E402
from runner.project import Project  # noqa: E402
from runner.request import cli, parser  # noqa: E402
from runner.request.block import TrialBlock  # noqa: E402
from runner.request.plan import build_series_plan  # noqa: E402
from runner.session import Session  # noqa: E402
from runner.trial import format_now  # noqa: E402
from workloads.records.files import write_json  # noqa: E402
from workloads.records.job import Installation, Job, Kind  # noqa: E402
from workloads.records.result import TrialResult  # noqa: E402
from workloads.records.status import Status  # noqa: E402

SIZES = 100  # batch sizes: the rest are repeats


def sleeping(seconds: float) -> Any:
    """Make a task to use in place of run_block, which sleeps."""

    @ray.remote(max_retries=0, num_returns="streaming")
    def sleep_block(block: dict[str, Any], inputs: dict[str, Any]) -> Iterator[Parcel]:
        for spec in TrialBlock.from_json(block).trials:
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made) / spec.id
                folder.mkdir()
                write_json(folder / "job.json", Job(Kind.TRIAL, spec).to_json())
                time.sleep(seconds)
                result = TrialResult(spec, Status.FAILED, "simulated", format_now(), seconds)
                yield Parcel.pack(result.to_json(), {}, folder, Path(made) / spec.probe_id)

    return sleep_block


def main() -> None:
    """Print one line for each figure."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--trials", type=int, default=100)
    words.add_argument("--nodes", type=int, default=3)
    words.add_argument("--seconds", type=float, default=2.0)
    asked = words.parse_args()
    sizes = min(SIZES, asked.trials)
    with tempfile.TemporaryDirectory() as results:
        study = ["--framework", "numpy", "--device", "cpu", "--threads", "1", "--results", results]
        study += ["--batch-size", *map(str, range(1, sizes + 1)), "--repeat", str(asked.trials // sizes)]
        request = cli.build_request(parser.run_parser().parse_args(study), Project.at(ROOT))
        installed = {"numpy": Installation("here", "-")}
        plan = build_series_plan(request, installed, range(request.study.repeats), {})
        asleep = {"numpy": Unavailable("asleep")}
        session = Session(request, asleep, installed, plan.trials, Console(file=io.StringIO()))
        cluster = Cluster()
        try:
            for _ in range(asked.nodes):
                cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20, include_dashboard=False)
            cluster.wait_for_nodes()
            engine = ray_engine.RayEngine(
                cluster.address, request.project, Path(results), {"CPU": 1}, task=sleeping(asked.seconds)
            )
            before, spent = psutil.Process().memory_info().rss, time.process_time()
            started = time.monotonic()
            told = Sweep(session, plan, engine).run()
            wall_s, spent_s = time.monotonic() - started, time.process_time() - spent
            grown = psutil.Process().memory_info().rss - before
            engine.close()
        finally:
            cluster.shutdown()  # type: ignore[no-untyped-call]
        stored = len(list(Path(results).glob("trials/*/result.json")))
    asleep_s = sum(each.wall_s for each in told)
    print(
        f"{len(told):,} trials, {stored:,} stored, of {asked.seconds:g} s each on {asked.nodes} nodes: {wall_s:.1f} s"
    )
    if asleep_s:
        print(f"efficiency: {asleep_s / (asked.nodes * wall_s):.3f}")
    each_ms = 1000 / len(told)
    print(f"a trial: {wall_s * each_ms:.1f} ms, of the driver's processor {spent_s * each_ms:.1f} ms")
    print(f"the driver's memory: {grown / 2**20:.0f} MiB more, {psutil.Process().memory_info().rss / 2**20:.0f} in all")


if __name__ == "__main__":
    main()
