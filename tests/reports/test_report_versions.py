"""Real results of every schema version that was ever written: corpus/VERSION is a results folder of one small trial."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from written import make, numbers

from reports import load
from reports.checking import recheck
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.records.versions import NEWEST, OTHER_IDS

CORPUS = Path(__file__).parent / "corpus"
VERSIONS = range(1, NEWEST + 1)


def stored(version: int) -> Path:
    (path,) = CORPUS.glob(f"{version}/trials/*/result.json")
    assert json.loads(path.read_text(encoding="utf-8"))["schema_version"] == version
    return path


@pytest.mark.parametrize("version", VERSIONS)
def test_a_result_of_any_version_is_read_and_makes_a_report(version: int, tmp_path: Path) -> None:
    name = stored(version).parent.name
    shutil.copytree(CORPUS / str(version), tmp_path / "results")
    (result,) = load.read(tmp_path / "results").results
    assert (result.spec.id == name) == (version not in OTHER_IDS)
    speed = result.figures["images_per_s"].value
    made = make(tmp_path / "results", tmp_path / "report")
    assert f"{result.spec.task.workload} on {result.spec.task.dataset}" in made.markdown
    (row,) = numbers(tmp_path / "report" / "speed.csv")
    assert speed is not None and speed > 0
    assert row["mean"] == (str(speed) if result.status is Status.OK else "")
    assert row["status"] == str(result.status)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_check_finds_no_trial_of_an_older_version_in_the_wrong_folder(version: int) -> None:
    (result,) = load.read(CORPUS / str(version)).results
    findings = recheck.trial(result, stored(version).parent)
    assert not [line for line in findings if "changed after the run" in line]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_result_that_is_stored_again_is_of_the_newest_version(version: int) -> None:
    result = TrialResult.from_json(json.loads(stored(version).read_text(encoding="utf-8")))
    again = result.to_json()
    assert again["schema_version"] == NEWEST
    assert TrialResult.from_json(json.loads(json.dumps(again))).to_json() == again
