"""`--memory-limit` without a container, by the real command line, with the limits that this machine allows."""

from __future__ import annotations

import json
from pathlib import Path

from copied import run_in

from runner import family
from workloads.records.files import RESULT_FILE
from workloads.records.status import Status

LIMIT_MIB = 100
WORDS = ("--framework", "numpy", "--isolation", "here", "--device", "cpu", "--threads", 1, "--workload", "osu-cnn",
         "--dataset", "digits", "--epochs", 1, "--window", 0.1, "--retry", "contended")  # fmt: skip


def test_what_needs_more_than_the_limit_is_out_of_memory_and_what_needs_less_is_not(
    tmp_path: Path, forgetful: Path
) -> None:
    done = run_in(forgetful, *WORDS, "--batch-size", 16, 256, "--memory-limit", LIMIT_MIB, "--results", tmp_path)
    assert done.returncode == 0, done.stderr
    results = [json.loads(path.read_text()) for path in tmp_path.glob(f"trials/*/{RESULT_FILE}")]
    statuses = {each["spec"]["cell"]["batch_size"]: Status(each["status"]) for each in results}
    assert statuses == {16: Status.OK, 256: Status.OUT_OF_MEMORY}
    in_group = family.can_limit_memory()
    assert {each["spec"]["placement"]["control_group"] for each in results} == {in_group}
    reason = next(each["reason"] for each in results if each["status"] == Status.OUT_OF_MEMORY)
    assert ("under a limit of 100.0 MiB" if in_group else "limit of private memory (RLIMIT_DATA)") in reason
    report = (tmp_path / "report" / "report.md").read_text()
    assert f"{LIMIT_MIB} MiB of {'a control group' if in_group else 'data segment'}" in report
