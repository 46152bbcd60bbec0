"""Submissions of honest machines are not refused; a trial that is run again is labelled by how it compares."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from stored import run
from submitted import ON_CPU, ON_GPU, Machine, edit, list_trials, make_again, run_on, seal, unpack_trials
from test_report_site import read_cells

from reports.checking import recheck
from reports.load import ReportError
from reports.publishing.archive import unpack
from reports.submitting import command
from reports.submitting.agreement import compare_rerun, draw_cells
from reports.submitting.labels import Label, find_file, read_labels, write_labels
from reports.submitting.verification import Submission, verify_results
from tools import submission_rerun, verify_submission
from tools.submission_rerun import explain_not_runnable, write_study
from workloads.own_names import name_node
from workloads.records.check_name import CheckName
from workloads.records.checks import check_figures
from workloads.records.result import Check, Epoch, TrialResult
from workloads.records.stored import read_result
from workloads.study_file import parse_study

pytestmark = pytest.mark.slow

MODELS = ("AMD EPYC 9654", "AMD Ryzen 9 7950X", "AMD EPYC 7763 64-Core Processor", "AMD Ryzen 5 5600X")
INTEL = ("Intel(R) Xeon(R) Platinum 8480+", "Intel(R) Core(TM) i7-1185G7 @ 3.00GHz", "unknown")
COUNTERS = ((), ("page_faults", "context_switches"), ("cores_cpu_s",), ("proportional_bytes",))
OF_CPU = ("mxnet-cpu-b00128", "pytorch-cpu-b00128", "tensorflow-cpu-b00128")
OF_GPU = ("jax-cuda-b01024", "keras_jax-cuda-b01024", "keras_torch-cuda-b01024", "pytorch-cuda-b01024")


def draw_machine(number: int, on_gpu: bool, with_mxnet: bool) -> Machine:
    """Draw a machine: processor, memory, speed, sampler's jitter, boot, and what its kernel does not give."""
    generator = np.random.default_rng(number)
    models = MODELS if with_mxnet else (*MODELS, *INTEL)  # the stored MXNet chose code for AMD
    facts = (
        ("cpu_model", models[number % len(models)]),
        ("cores", int(generator.integers(2, 129)) if not on_gpu else 64),
        ("memory_bytes", int(generator.integers(8, 512)) * 2**30),
        ("os", f"Linux-{generator.integers(4, 7)}.{generator.integers(0, 20)}-x86_64"),
    )
    return Machine(
        slowness=1.0 if on_gpu else float(generator.uniform(1.0, 2.5)),
        jitter_s=0.0 if on_gpu else float(generator.uniform(0, 0.03)),
        facts=facts,
        booted_s=float(generator.uniform(1.6e9, 1.8e9)),
        package_w=float(generator.uniform(5, 700)) if number % 3 == 0 and not on_gpu else None,
        missing=() if on_gpu else COUNTERS[number % len(COUNTERS)],
        delay_s=float(generator.uniform(0.1, 20)),
    )


def test_of_100_honest_machines_none_is_refused(tmp_path: Path) -> None:
    """Seven of eight submit one trial, the others all three; one of ten trains on a GPU."""
    bases = {
        False: unpack_trials(ON_CPU, tmp_path / "cpu", OF_CPU),
        True: unpack_trials(ON_GPU, tmp_path / "gpu", OF_GPU),
    }
    every = {on_gpu: list_trials(base) for on_gpu, base in bases.items()}
    refused: dict[int, list[str]] = {}
    for number in range(100):
        on_gpu = number % 10 == 9
        trials = every[on_gpu]
        kept = trials if number % 8 == 0 else [trials[number // 10 % len(trials)] if on_gpu else trials[number % 3]]
        frameworks = {trial.name.partition("-")[0] for trial in kept} | {"numpy"}
        left = [trial.name for trial in trials if trial not in kept]
        left += [path.name for path in bases[on_gpu].glob("probes/*") if path.name.partition("-")[0] not in frameworks]
        results = shutil.copytree(bases[on_gpu], tmp_path / str(number), ignore=lambda *_, left=left: left)
        run_on(draw_machine(number, on_gpu, any("mxnet" in trial.name for trial in kept)), results, number)
        seen = verify_results(results)
        assert len(seen.results) == len(kept) and all(each.status == "ok" for each in seen.results), seen.subject
        refused |= {number: seen.findings[:3]} if seen.findings else {}
        shutil.rmtree(results)
    assert not refused, json.dumps(refused, indent=1)


def test_trials_of_several_images_that_share_a_processor_are_not_refused(tmp_path: Path) -> None:
    """Each framework's image has its own Python, system and share of the cores; a cluster runs two trials at once."""
    results = unpack_trials(ON_CPU, tmp_path / "cpu", ("pytorch-cpu-b00128", "mxnet-cpu-b00128"))
    run_on(draw_machine(0, on_gpu=False, with_mxnet=True), results, at_once=True)
    image = {"python": "3.12.3", "os": "Linux-6.1-x86_64-with-glibc2.39", "libc": "glibc 2.39", "cores": 2}
    for name in ("result.json", "attempt.json"):
        edit(list_trials(results)[0] / name, lambda data: data["machine"].update(image))
    assert verify_results(seal(results)).findings == []


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seal(unpack_trials(ON_CPU, tmp_path_factory.mktemp("base"), ("pytorch-cpu-b00128", "mxnet-cpu-b00128")))


@pytest.fixture(scope="module")
def trial(base: Path) -> TrialResult:
    return read_result(min(base.glob("trials/pytorch-*")) / "result.json")


def changed(result: TrialResult, name: str, by: float) -> TrialResult:
    figure = result.figures[name]
    assert figure.value is not None
    return replace(result, figures=result.figures | {name: replace(figure, value=figure.value * by)})


def test_a_trial_that_is_run_again_is_labelled_by_what_could_be_compared(trial: TrialResult) -> None:
    assert compare_rerun(trial, trial).label is Label.RERUN
    assert compare_rerun(trial, changed(trial, "images_per_s", 1.2)).label is Label.RERUN
    for other in (
        replace(trial, machine=trial.machine | {"cpu_model": "AMD Ryzen 9"}),
        changed(trial, "product_flop_per_s", 1.6),
    ):
        agreement = compare_rerun(trial, changed(other, "images_per_s", 2))
        assert (agreement.label, agreement.findings) == (
            Label.RECOMPUTED,
            (),
        ) and "speed not compared" in agreement.note
    epochs = trial.epochs
    last: Epoch = replace(epochs[-1], test_accuracy=epochs[-1].test_accuracy - 0.4)
    for forged, told in (
        (changed(trial, "images_per_s", 1.5), "images_per_s"),
        (changed(trial, "cpu_percent", 0.6), "cpu_percent"),
        (replace(trial, first_losses=[trial.first_losses[0], 2.0, *trial.first_losses[2:]]), "first_losses: step 2"),
        (replace(trial, epochs=[*epochs[:-1], last]), "test_accuracy"),
        (changed(trial, "steps_peak_bytes", 0.5), "steps_peak_bytes"),
        (changed(trial, "parameters_bytes", 1.01), "parameters_bytes"),
    ):
        agreement = compare_rerun(forged, trial)
        assert agreement.label is Label.CLAIMED and agreement.findings[0].startswith(told), told


def metered(result: TrialResult, joules: float) -> TrialResult:
    """Give a trial this energy per image."""
    figure = replace(result.figures["cpu_energy_per_image_j"], value=joules, reason=None)
    return replace(result, figures=result.figures | {"cpu_energy_per_image_j": figure})


def test_an_energy_is_compared_where_both_know_it_and_otherwise_said_not_to_be(trial: TrialResult) -> None:
    halved = compare_rerun(metered(trial, 0.01), metered(trial, 0.02))
    assert halved.label is Label.CLAIMED and halved.findings[0].startswith("cpu_energy_per_image_j: submitted: 0.01")
    near = compare_rerun(metered(trial, 0.018), metered(trial, 0.02))
    assert (near.label, near.findings, near.note) == (Label.RERUN, (), "")
    unknown = compare_rerun(metered(trial, 0.01), trial)
    assert (unknown.label, unknown.note) == (Label.RERUN, "CPU energy not compared: unknown here")
    shared = replace(trial, machine=trial.machine | {"cores": 64})
    agreement = compare_rerun(metered(shared, 0.01), metered(shared, 0.02))
    assert agreement.label is Label.RERUN, "the counter is of all 64 cores, whoever used the others"
    elsewhere = replace(metered(trial, 0.02), machine=trial.machine | {"cpu_model": "AMD Ryzen 9"})
    assert compare_rerun(metered(trial, 0.01), elsewhere).label is Label.RECOMPUTED


def test_what_lies_in_the_folder_of_a_rerun_is_never_taken_for_it(
    trial: TrialResult, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(base / "trials", tmp_path / "mine.rerun" / "trials")
    said = subprocess.CompletedProcess([], 1, "", "runner: nothing was run")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: said)
    monkeypatch.setattr(submission_rerun, "explain_not_runnable", lambda spec: None)
    monkeypatch.setattr(submission_rerun, "explain_other_software", lambda submitted: None)
    with pytest.raises(submission_rerun.CannotRun, match="exit code 1: runner: nothing was run"):
        submission_rerun.run_again(trial, tmp_path / "mine.rerun")
    assert [path.name for path in (tmp_path / "mine.rerun").iterdir()] == ["rerun.toml"]


def test_labels_of_an_earlier_verification_go_where_a_later_one_finds_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.tar.xz"
    file.write_bytes(b"archive")
    write_labels(file, {"trial": Label.RERUN})
    found = Submission("1 trial", findings=["trial: forged"])
    monkeypatch.setattr(verify_submission, "verify_submission", lambda file: found)
    assert verify_submission.main([str(file)]) == 1 and not find_file(file).exists()


def test_our_own_labels_are_kept_where_a_later_verification_of_the_same_archive_runs_nothing_again(
    trial: TrialResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, name = tmp_path / "mine.tar.xz", trial.spec.id
    file.write_bytes(b"archive")
    write_labels(file, {name: Label.RERUN})
    monkeypatch.setattr(verify_submission, "verify_submission", lambda file: Submission("1 trial", (trial,)))
    assert verify_submission.main([str(file), "--rerun", "0", "--keep-labels"]) == 0
    assert read_labels(file) == {name: Label.RERUN}
    assert verify_submission.main([str(file), "--rerun", "0"]) == 0
    assert read_labels(file) == {name: Label.CLAIMED}, "a sender may have written them"
    write_labels(file, {name: Label.RERUN})
    file.write_bytes(b"another archive")
    assert verify_submission.main([str(file), "--rerun", "0", "--keep-labels"]) == 2


def test_processes_of_blocks_have_no_label_and_are_not_drawn(
    base: Path, trial: TrialResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = shutil.copytree(base, tmp_path / "results")
    process = min(results.glob("trials/mxnet-*"))
    (results / "blocks").mkdir()
    process.rename(results / "blocks" / process.name)
    seen = verify_results(seal(results))
    assert [each.spec.id for each in seen.results] == [trial.spec.id]
    (tmp_path / "mine.tar.xz").write_bytes(b"archive")
    labels: dict[str, Label] = {}
    monkeypatch.setattr(verify_submission, "_rerun", lambda *_: Label.RERUN)
    verify_submission.rerun_cells(seen, labels, tmp_path / "mine.tar.xz", 3)
    assert labels == {trial.spec.id: Label.RERUN}


def test_identical_copies_and_earlier_attempts_are_not_several_trials_of_one_name(base: Path, tmp_path: Path) -> None:
    results = shutil.copytree(base, tmp_path / "results")
    trial = min(results.glob("trials/pytorch-*"))
    shutil.copytree(trial, results / "blocks" / trial.name)
    shutil.copytree(trial, results / "attempts" / f"{trial.name}-1")
    assert not [line for line in verify_results(seal(results)).findings if "is stored" in line]


def test_cells_are_drawn_by_the_checksum_alone_and_asked_for_as_they_were(trial: TrialResult) -> None:
    names = [f"trial-{number}" for number in range(30)]
    drawn = draw_cells(names, "a" * 64, 3)
    assert drawn == draw_cells(reversed(names), "a" * 64, 3) and len(set(drawn)) == 3
    assert len({tuple(draw_cells(names, f"{number:064x}", 3)) for number in range(20)}) > 15
    study = parse_study(write_study(trial.spec).encode(), Path("rerun.toml"))
    assert (study.batch_sizes, study.frameworks, study.epochs, study.seed) == ((128,), ("pytorch",), 10, 0)
    placed = replace(trial.spec.placement, threads=1)  # any machine has as many
    assert explain_not_runnable(replace(trial.spec, placement=placed)) is None
    more = replace(placed, threads=10_000)
    assert "it had 10000 cores, here are" in (explain_not_runnable(replace(trial.spec, placement=more)) or "")
    evil = replace(placed, variables={"LD_PRELOAD": "evil.so"})
    assert "variables of its caller" in (explain_not_runnable(replace(trial.spec, placement=evil)) or "")


def test_what_is_submitted_is_verified_labelled_and_shown(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.tar.xz"
    ran = run("submit", base, "--out", file)
    assert ran.returncode == 0, ran.stderr
    assert verify_submission.main([str(file), "--rerun", "0"]) == 0
    assert capsys.readouterr().out.count(": claimed\n") == 2 and set(read_labels(file).values()) == {Label.CLAIMED}
    pytorch = next(name for name in read_labels(file) if name.startswith("pytorch"))
    write_labels(file, read_labels(file) | {pytorch: Label.RERUN})
    assert run("site", file, "--out", tmp_path / "site").returncode == 0
    page = (tmp_path / "site" / "index.html").read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data, "its legend has every label, whatever the cells have"
    shown = {cell["framework"]: cell["label"] for cell in read_cells(json.loads(data[1]))}
    assert shown == {"PyTorch": Label.RERUN, "MXNet": Label.CLAIMED}
    assert (tmp_path / "site" / "mine" / "report.html").is_file()
    find_file(file).write_text(find_file(file).read_text().replace('"sha256": "', '"sha256": "0'))
    assert "labels of another archive" in run("site", file, "--out", tmp_path / "site").stderr


def test_the_ci_job_checks_what_a_pull_request_brings_and_takes_no_labels_from_it(base: Path, tmp_path: Path) -> None:
    for each in ROOT.iterdir():
        if each.name not in (".ci", ".git", "submissions"):
            (tmp_path / each.name).symlink_to(each)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "submissions", tmp_path / ".ci")
    submissions = tmp_path / "submissions"
    submissions.mkdir()

    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    def check() -> tuple[int, str]:
        git("add", "submissions")
        git("commit", "--quiet", "--allow-empty", "--message", "results")
        command = ["bash", str(tmp_path / ".ci" / "submissions"), "target", "--rerun", "0"]
        other = os.environ | {"GIT_DIR": str(tmp_path / "another repository")}
        done = subprocess.run(command, env=other, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()[-1]

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "target")
    git("branch", "target")
    assert check() == (0, "submissions: 0 checked")
    assert run("submit", base, "--out", submissions / "mine.tar.xz").returncode == 0
    assert check() == (0, "submissions: 1 checked") and read_labels(submissions / "mine.tar.xz")
    assert check() == (1, "submissions: 1 checked"), "the labels came with the pull request"
    git("rm", "--quiet", "submissions/mine.labels.json")
    shutil.copy(submissions / "mine.tar.xz", submissions / "results.tar.xz")
    assert check() == (2, "submissions: 2 checked"), "the site would take the folder for a publication"
    git("rm", "--quiet", "submissions/results.tar.xz")
    (submissions / "a.tar.xz").write_bytes(b"no archive")
    assert check() == (2, "submissions: 2 checked")


def test_what_would_be_refused_is_not_packed(base: Path, tmp_path: Path) -> None:
    results = shutil.copytree(base, tmp_path / "results")
    out = tmp_path / "out.tar.xz"
    trial = min(results.glob("trials/pytorch-*"))
    edit(trial / "result.json", lambda data: data["figures"]["images_per_s"].update(value=9999.0))
    for arguments, told in (
        ([results, "--out", out], "would be refused: "),
        ([base, "--out", tmp_path / "out.zip"], "must end in .tar.xz"),
        ([tmp_path / "none", "--out", out], "no such folder"),
    ):
        ran = run("submit", *arguments)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1) and told in ran.stderr, ran.stderr
    assert not out.exists()
    make_again(trial)
    assert run("submit", results, "--out", out).returncode == 0
    assert {path.suffix for path in unpack(out, tmp_path / "again").rglob("*") if path.is_file()} <= {
        ".json", ".jsonl", ".csv", ".txt", "",
    }  # fmt: skip
    before = out.read_bytes()
    assert run("submit", results, "--out", out).returncode == 2 and out.read_bytes() == before


def test_a_batch_larger_than_the_training_split_is_packed(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_large = Check(CheckName.IN_SPLIT, False, "epochs are one batch of 100, the window repeats images")
    results = shutil.copytree(base, tmp_path / "results")
    for trial in list_trials(results):
        edit(trial / "result.json", lambda data: data["checks"].append(vars(too_large)))
    monkeypatch.setattr(recheck, "check_figures", lambda *facts: [*check_figures(*facts), too_large])
    ran = run("submit", results, "--out", tmp_path / "out.tar.xz")
    assert ran.returncode == 0, ran.stderr


def test_a_file_is_placed_without_hard_links_and_replaces_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, out = tmp_path / "packed", tmp_path / "out" / "mine.tar.xz"
    packed.write_bytes(b"new")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        command.place(packed, out)
    assert out.read_bytes() == b"new" and list(out.parent.iterdir()) == [out]
    packed.write_bytes(b"newer")
    with pytest.raises(ReportError, match="File exists"):
        command.place(packed, out)
    assert out.read_bytes() == b"new" and list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize(("nodes", "refused"), [(("a", "b"), False), (("a", "a"), True)])
def test_nodes_of_a_cluster_that_booted_at_once_are_machines_of_their_own(
    base: Path, tmp_path: Path, nodes: tuple[str, str], refused: bool
) -> None:
    results = shutil.copytree(base, tmp_path / "results")
    kinds = ("AMD EPYC 9654", "AMD Ryzen 9 7950X")
    for trial, node, model in zip(sorted(results.glob("trials/*")), nodes, kinds, strict=True):
        for name in ("result.json", "attempt.json"):
            data = json.loads((trial / name).read_text())
            data["machine"] |= {"node": node, "cpu_model": model}
            (trial / name).write_text(json.dumps(data))
    found = [line for line in verify_results(seal(results)).findings if "cpu_model differs" in line]
    assert bool(found) == refused


def test_results_that_name_the_host_of_a_clusters_node_are_not_packed(base: Path, tmp_path: Path) -> None:
    results = shutil.copytree(base, tmp_path / "results")
    out, trial = tmp_path / "out.tar.xz", min(results.glob("trials/*"))
    for node, code in (("node17.cluster.example.org", 2), (name_node("node17.cluster.example.org"), 0)):
        for path in (trial / "result.json", trial / "attempt.json"):
            data = json.loads(path.read_text())
            data["machine"] |= {"node": node}
            path.write_text(json.dumps(data))
        ran = run("submit", results, "--out", out)
        assert ran.returncode == code, ran.stderr
        assert ("naming the host of a cluster's node" in ran.stderr) == (code == 2) == (not out.exists())
        assert "run the trials again" not in ran.stderr, "it would take no name out of a file"


def test_a_folder_that_takes_no_labels_is_named_before_anything_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.tar.xz").write_bytes(b"archive")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert verify_submission.main([str(tmp_path / "mine.tar.xz")]) == 2
    assert "cannot be written: labels are stored next to the file" in capsys.readouterr().err
