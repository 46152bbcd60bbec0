"""Run the conformance suite's cases on a GPU by the framework of this Python, and judge them here.

python tests/benchmarks/measure_on_gpu.py OUT [CASE...] [--framework pytorch] [--device cuda] [--precision NAME...]
writes OUT/conformance.json: for each profile and case the checks that fail, with their words; for each precision the
largest part of the gate's tolerance that a case used, by kind of quantity. The truth is the referee in float64 on the
CPU. docs/evidence/conformance.md has a run of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "tests" / "conformance"
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(CONFORMANCE)]

import settings  # noqa: E402
from settings import CASES, Case  # noqa: E402
from suite import Seen, checks_of, load, under  # noqa: E402
from test_precisions import NAMES  # noqa: E402

from runner.gate.tolerances import Truth, compute_deviations, find_difference  # noqa: E402
from workloads.records.build import DEFAULT, FLOAT32, FLOAT64, TUNED  # noqa: E402
from workloads.records.evidence import Evidence  # noqa: E402

PROFILES = (DEFAULT, TUNED)
NO_ANSWER = "no answer"  # a case that was not computed in time
REFEREE = "numpy"


def start_probe(
    out: Path, framework: str, profile: str, precision: str, device: str, cases: Sequence[Case]
) -> subprocess.Popen[bytes]:
    """Start `probe.py` by this Python; its messages go to OUT.log."""
    out.mkdir(exist_ok=True)
    words = (CONFORMANCE / "probe.py", f"adapters.{framework}.adapter", profile, precision, out.parent / "inputs", out)
    variables = {
        settings.DEVICE_VARIABLE: device,
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    with out.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *map(str, words), *(case.name for case in cases)],
            env=os.environ | variables, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip


def wait(started: dict[str, subprocess.Popen[bytes]], until_s: float) -> dict[str, int | None]:
    """Return the exit code of each process; None for one that was ended because the time was over."""
    codes: dict[str, int | None] = {}
    for name, process in started.items():
        try:
            codes[name] = process.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            codes[name] = None
    return codes


def judge_cases(out: Path, cases: Sequence[Case]) -> dict[str, Any]:
    """Return {case: {check: what is wrong}} of the cases that fail a check, and what was not computed."""
    failed: dict[str, Any] = {}
    for case in cases:
        truth, found = out.parent / "truth" / f"{case.twin}.npz", out / f"{case.name}.npz"
        if not (found.is_file() and truth.is_file()):
            failed[case.name] = {"computed": NO_ANSWER}
            continue
        initial = under(load(out.parent / "inputs" / f"{case.twin}.npz"), "initial/")
        seen = Seen(case, load(found), load(truth), initial)
        said = {name: check(seen) for name, check in checks_of(case).items()}
        if any(said.values()):
            failed[case.name] = {name: words for name, words in said.items() if words}
    return failed


def judge_evidence(out: Path, precision: str, cases: Sequence[Case]) -> dict[str, Any]:
    """Return, for each case, the largest part of the gate's tolerance by kind, and the difference if it is refused."""
    judged: dict[str, Any] = {}
    folder = out.parent
    for case in cases:
        files = (folder / "truth" / f"{case.twin}.json", folder / f"{REFEREE}-{precision}" / f"{case.twin}.json")
        mine = out / f"{case.name}.json"
        if not mine.is_file() or not all(file.is_file() for file in files):
            judged[case.name] = {"refused": NO_ANSWER}
            continue
        evidence, exact, rounded = (Evidence.from_json(json.loads(file.read_text())) for file in (mine, *files))
        truth = Truth(exact, rounded, precision=precision)
        ratios: dict[str, float] = {}
        for deviation in compute_deviations(evidence, truth):
            kind = deviation.kind.name.lower()
            ratios[kind] = max(ratios.get(kind, 0.0), round(deviation.ratio, 4))
        judged[case.name] = {"refused": find_difference(evidence, truth), **ratios}
    return judged


def main() -> None:
    """Run and judge; prints one line for each profile and precision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--framework", default="pytorch")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=600.0, help="what is not computed by then has no answer")
    parser.add_argument("--precision", nargs="*", default=["tf32", "bfloat16", "float16"])
    options = parser.parse_args()
    out, began_s = options.out.resolve(), time.monotonic()
    (out / "inputs").mkdir(parents=True, exist_ok=True)
    chosen = [CASES[name] for name in options.cases] or [case for case in CASES.values() if not case.large]
    plain = [case for case in chosen if case.profile == DEFAULT]
    for case in plain:
        np.savez(out / "inputs" / f"{case.name}.npz", **settings.prepare(case))  # type: ignore[arg-type]
    undrawn = [case for case in plain if not case.workload.draws]
    lower = [case for case in undrawn if case.name in NAMES]
    mine, device = options.framework, options.device
    started = {
        "truth": start_probe(out / "truth", REFEREE, DEFAULT, FLOAT64, "cpu", plain),
        f"{REFEREE}-{FLOAT32}": start_probe(out / f"{REFEREE}-{FLOAT32}", REFEREE, DEFAULT, FLOAT32, "cpu", undrawn),
    }
    for profile in PROFILES:
        cases = [case for case in chosen if case.profile == profile]
        started[profile] = start_probe(out / profile, mine, profile, FLOAT32, device, cases)
    for precision in options.precision:
        name = f"{REFEREE}-{precision}"
        started[name] = start_probe(out / name, REFEREE, DEFAULT, precision, "cpu", lower)
        started[precision] = start_probe(out / precision, mine, DEFAULT, precision, device, lower)
    codes = wait(started, began_s + options.seconds)
    found: dict[str, Any] = {"exit_codes": codes, "seconds": round(time.monotonic() - began_s, 1)}
    for profile in PROFILES:
        cases = [case for case in chosen if case.profile == profile]
        found[profile] = judge_cases(out / profile, cases)
        mute = sum(said.get("computed") == NO_ANSWER for said in found[profile].values())
        passed = len(cases) - len(found[profile])
        print(f"{mine} {profile} {FLOAT32}: {passed} of {len(cases)} cases pass, {mute} have no answer")
    for name, folder in ((FLOAT32, DEFAULT), *((precision, precision) for precision in options.precision)):
        cases = undrawn if name == FLOAT32 else lower
        found[name] = judge_evidence(out / folder, name, cases)
        mute = sum(said["refused"] == NO_ANSWER for said in found[name].values())
        refused = sum(bool(said["refused"]) for said in found[name].values()) - mute
        print(f"{mine} {name}: the gate refuses {refused} of {len(cases)} cases, {mute} have no answer")
    (out / "conformance.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
