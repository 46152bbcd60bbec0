"""The page over many results: its data, and the folder that it is written into."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import varied
from stored import MACHINE, ended, on_gpu, store, trial

from reports.__main__ import main
from reports.load import Stored, read_all
from reports.publishing import archive
from reports.publishing.archive import list_results
from reports.publishing.citation import Credit
from reports.publishing.publication import FILE, read
from reports.publishing.publish import publish
from reports.site import cells
from reports.site.command import SHOWN
from workloads.records.files import ATTEMPTS, RESULT_FILE, write_json
from workloads.records.status import Status


def data_of(*trials: Any) -> dict[str, Any]:
    folders = tuple(Path("results/trials") / each.spec.id for each in trials)
    return cells.build_data([cells.Source("mine", Stored(trials, folders, (), ()), "mine/report.html")])


def read_cells(data: dict[str, Any]) -> list[dict[str, Any]]:
    names = ["source", *cells.CHOICES, *cells.WORDS, "trials", *(each["name"] for each in data["quantities"])]
    every = [dict(zip(names, cell, strict=True)) for cell in data["cells"]]
    texts = {name: data["texts"] for name in (*cells.CHOICES, *cells.WORDS) if name != "batch"}
    return [cell | {name: texts[name][cell[name]] for name in texts} for cell in every]


def test_a_cell_has_the_mean_of_its_repeats_with_its_interval_and_names_its_trials() -> None:
    repeats = [trial("pytorch", 64, repeat) for repeat in range(3)]
    only = trial("mxnet", 32)
    mxnet, pytorch = sorted(read_cells(data_of(*repeats, only)), key=lambda cell: cell["framework"])
    speeds = [float(each.figures["images_per_s"].value or 0) for each in repeats]
    mean, low, high = pytorch["speed"]
    assert mean == pytest.approx(sum(speeds) / 3, rel=1e-5) and low < mean < high
    assert pytorch["trials"] == [each.spec.id for each in repeats] and pytorch["batch"] == 64
    assert pytorch["framework"] == "PyTorch"
    assert pytorch["machine"] == f"{MACHINE['cpu_model']}, {MACHINE['cores']} cores"
    assert mxnet["speed"] == [float(f"{only.figures['images_per_s'].value:.6g}")], "one run has no interval"


def test_a_cpu_and_a_gpu_have_figures_of_their_own_where_they_measure_different_things() -> None:
    figures = {each["name"]: each["figures"] for each in data_of(trial("pytorch", 64))["quantities"]}
    assert figures["memory"] == {"cpu": "Host memory", "cuda": "GPU memory"}
    assert figures["usage"] == {"cpu": "CPU usage", "cuda": "GPU usage"}
    assert len({*figures["speed"].values()}) == len({*figures["accuracy"].values()}) == 1


def test_a_mean_of_those_that_ended_well_says_how_many_they_are_and_what_became_of_the_others() -> None:
    reason = "the loss of step 3 is not a number"
    diverged = (replace(trial("pytorch", 64, repeat), status=Status.DIVERGED, reason=reason) for repeat in (1, 2))
    data = data_of(trial("pytorch", 64), *diverged)
    (cell,) = read_cells(data)
    mean, low, high, n, notes = cell["accuracy"]
    assert (low, high, n, len(cell["trials"])) == (None, None, 1, 3)
    assert data["texts"][notes] == "repeat 1: diverged; repeat 2: diverged" and mean > 0
    assert len(cell["speed"]) == 3, "a diverged trial was measured whole: all three are in the mean of the speed"


def test_a_trial_that_was_tried_again_says_so(tmp_path: Path) -> None:
    folder = store(tmp_path / "mine", trial("pytorch", 64))
    timeout = ended(Status.TIMEOUT, "took too long", "pytorch", 64)
    attempt = folder / ATTEMPTS / f"{timeout.spec.id}-1" / RESULT_FILE
    attempt.parent.mkdir(parents=True)
    write_json(attempt, timeout.to_json())
    data = cells.build_data([cells.Source("mine", read_all(folder), "mine/report.html")])
    ((*_, n, notes),) = (cell["speed"] for cell in read_cells(data))
    assert n == 1 and data["texts"][notes] == "repeat 0: ok at the 2nd of 2 attempts; the 1st: timeout: took too long"


def test_two_folders_that_label_a_framework_otherwise_each_have_a_name_with_a_colour() -> None:
    sources = []
    for label in ("Flux A", "Flux B"):
        made = trial("numpy", 64, machine=MACHINE | {"framework_label": label})
        flux = replace(made, spec=varied(made.spec, framework="flux"))
        stored = Stored((flux,), (Path("results/trials") / flux.spec.id,), (), ())
        sources.append(cells.Source(label, stored, f"{label}/report.html"))
    data = cells.build_data(sources)
    assert [cell["framework"] for cell in read_cells(data)] == ["Flux A", "Flux B"]
    assert data["frameworks"].keys() == {"Flux A", "Flux B"}


def test_conditions_part_cells_and_precision_and_profile_are_choices() -> None:
    half = trial("pytorch@bfloat16", 64, precision="bfloat16")
    tuned = trial("pytorch@tuned", 64, profile="tuned")
    one_thread = trial("pytorch", 64, threads=1)
    found = read_cells(data_of(trial("pytorch", 64), half, tuned, one_thread))
    assert sorted((cell["profile"], cell["precision"]) for cell in found) == [
        ("default", "bfloat16"), ("default", "float32"), ("default", "float32"), ("tuned", "float32"),
    ]  # fmt: skip
    assert {cell["framework"] for cell in found} == {"PyTorch"}
    assert len({cell["settings"] for cell in found if cell["precision"] == "float32"}) > 1, "threads are told"


def test_softwares_of_a_framework_differ_in_words_and_others_are_the_same_ones() -> None:
    old = trial("pytorch", 64, environment="old", facts=trial().facts | {"framework_version": "2.12.0"})
    found = read_cells(data_of(old, trial("pytorch", 64), trial("pytorch", 32), on_gpu(trial("pytorch", 64))))
    on_cpu = [cell for cell in found if cell["device"] == "cpu"]
    words = [cell["software"] for cell in on_cpu]
    assert sorted(part for text in set(words) for part in text.split("; ") if part.startswith("version")) == [
        "version: 2.12.0", "version: 2.13.0",
    ]  # fmt: skip
    assert len(words) == 3 and len({(cell["settings"], cell["reported"]) for cell in on_cpu}) == 1
    (card,) = (cell["software"] for cell in found if cell["device"] == "cuda")
    assert "CUDA: 12.4" in card and "packages: " in card


def test_what_was_not_measured_says_why_and_is_never_a_number() -> None:
    failed, on_card = ended(Status.OUT_OF_MEMORY, "x", "mxnet", 64), on_gpu(trial("tensorflow", 64))
    lacking = trial("pytorch", 64)
    lacking = replace(lacking, figures={name: each for name, each in lacking.figures.items() if "accuracy" not in name})
    found = {cell["framework"]: cell for cell in read_cells(data_of(failed, lacking, on_card))}
    assert found["MXNet"]["speed"] == "OOM" and found["PyTorch"]["accuracy"] == "\N{EN DASH}"
    assert (found["TensorFlow"]["device"], found["TensorFlow"]["machine"]) == ("cuda", "NVIDIA H200")


def test_the_site_holds_each_report_and_replaces_only_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = store(tmp_path / "first", trial("pytorch", 32)), store(tmp_path / "second", trial("mxnet", 32))
    out = tmp_path / "site"
    assert main(["site", str(first), str(second), "--out", str(out)]) == 0
    page = (out / "index.html").read_text()
    told = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert told and len(json.loads(told[1])["cells"]) == 2
    for folder, result in (("first", trial("pytorch", 32)), ("second", trial("mxnet", 32))):
        assert f'id="trial-{result.spec.id}"' in (out / folder / "report.html").read_text()
    assert main(["site", str(first), "--out", str(out)]) == 0, "what this command wrote may be replaced"
    assert not (out / "second").exists()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "thesis.txt").write_text("mine")
    capsys.readouterr()
    for arguments, said in (
        ([first, "--out", tmp_path / "others"], "holds other files"),
        ([first, "--out", tmp_path], "holds other files"),
        ([store(out / "inner", trial()), "--out", out], "lies in it"),
        ([tmp_path / "none", "--out", out], "no such folder"),
        ([first, store(tmp_path / "deep" / "first", trial()), "--out", out], "two folders are called first"),
    ):
        assert main(["site", *map(str, arguments)]) == 2
        line = capsys.readouterr().err
        assert said in line and line.count("\n") == 1, line
    assert (tmp_path / "others" / "thesis.txt").read_text() == "mine" and (out / "first").exists()


def test_names_of_folders_are_no_addresses_and_no_files_of_the_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("run #2", "50%", "javascript:alert(1)")
    folders = [store(tmp_path / name, trial("pytorch", 32)) for name in names]
    assert main(["site", *map(str, folders), "--out", str(tmp_path / "site")]) == 0
    page = (tmp_path / "site" / "index.html").read_text()
    for name in names:
        assert f'href="./{quote(name)}/report.html"' in page and (tmp_path / "site" / name / "report.html").is_file()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data and {"not checked"} == {cell["label"] for cell in read_cells(json.loads(data[1]))}
    for folder, out, said in (
        (store(tmp_path / "index.html", trial()), tmp_path / "site", "the site has a file of this name"),
        (folders[0], folders[0] / "site", "lies in"),
    ):
        assert main(["site", str(folder), "--out", str(out)]) == 2
        assert said in capsys.readouterr().err


def test_a_folder_of_results_folders_stands_for_them_and_for_nothing_beside_them(tmp_path: Path) -> None:
    for name in ("monday", "tuesday"):
        store(tmp_path / "results" / name, trial("pytorch", 32))
    (tmp_path / "results" / "notes").mkdir()
    (tmp_path / "results" / "wednesday" / "blocks").mkdir(parents=True)
    assert [path.name for path in list_results(tmp_path / "results", SHOWN)] == ["monday", "tuesday", "wednesday"]
    (tmp_path / "results" / "wednesday" / "blocks").rmdir()
    assert main(["site", str(tmp_path / "results"), "--out", str(tmp_path / "site")]) == 0
    made = sorted(path.parent.name for path in tmp_path.glob("site/*/report.html"))
    assert made == ["monday", "tuesday"]


def test_a_folder_that_may_not_be_read_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(folder: Path, rooms: Any = ()) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder / "trials"))

    monkeypatch.setattr(archive, "is_results", refuse)
    (tmp_path / "a").mkdir()
    for command in (["site", str(tmp_path / "a"), "--out", str(tmp_path / "site")], ["compare", *[str(tmp_path)] * 2]):
        assert main(command) == 2
        assert capsys.readouterr().err.endswith("trials: cannot be read: Permission denied; check its permissions\n")


def test_a_page_of_results_has_no_path_above_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "home-of-ann"
    for name in ("monday", "tuesday"):
        store(user / "results" / name, trial("pytorch", 32))
        (user / "results" / name / "trials" / "unfinished").mkdir()
        unreadable = user / "results" / name / "trials" / "unreadable" / "result.json"
        unreadable.parent.mkdir()
        unreadable.write_text("{")
    monkeypatch.chdir(user)
    for given, out in (("results", "site"), (str(user / "results"), "deep/site")):
        assert main(["site", given, "--out", out]) == 0
        for name in ("monday", "tuesday"):
            page = (user / out / name / "report.html").read_text()
            assert f"{name}/trials/unfinished" in page and f"{name}/trials/unreadable/result.json" in page
        assert not [path for path in Path(out).rglob("*") if path.is_file() and user.name.encode() in path.read_bytes()]


def unreadable(folder: Path) -> Path:
    """Store a result of an older schema in the folder."""
    path = folder / "trials" / "old" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 4}')
    return folder


def test_a_result_that_cannot_be_read_is_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = unreadable(store(tmp_path / "mine", trial())), tmp_path / "site"
    assert main(["site", str(folder), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("1 cell: ")
    line = "reports: mine: mine/trials/old/result.json: left out: schema version 4, this program reads "
    assert told.err.startswith(line) and told.err.count("\n") == 1
    none = unreadable(tmp_path / "none")
    assert main(["site", str(folder), str(none), "--out", str(out)]) == 2
    line = capsys.readouterr().err
    assert "none/trials/old/result.json: schema version 4" in line and line.count("\n") == 1


def test_a_publication_without_a_result_that_can_be_read_is_no_row_of_the_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = publish(store(tmp_path / "mine", trial()), tmp_path / "published", Credit(["A"]), name="mine", anyway=True)
    archive.pack(unreadable(tmp_path / "results"), given.folder / archive.ARCHIVE)
    (given.folder / archive.CHECKSUMS).write_text(archive.format_checksums(given.folder))
    capsys.readouterr()
    assert main(["site", str(given.folder), "--out", str(tmp_path / "site")]) == 2
    line = capsys.readouterr().err
    assert "trials/old/result.json: schema version 4" in line and line.count("\n") == 1
    assert not (tmp_path / "site").exists()


def test_links_in_a_publication_are_not_copied_and_what_it_lacks_is_said(tmp_path: Path) -> None:
    given = publish(store(tmp_path / "mine", trial()), tmp_path / "published", Credit(["A"]), name="mine", anyway=True)
    (tmp_path / "secret").write_text("secret")
    (given.folder / "notes.txt").symlink_to(tmp_path / "secret")
    given.folder.chmod(0o555)
    for _ in range(2):
        assert main(["site", str(given.folder), "--out", str(tmp_path / "site")]) == 0
    copied = tmp_path / "site" / "mine"
    assert (copied / "report.html").is_file() and not (copied / "notes.txt").exists()
    assert copied.stat().st_mode & 0o777 == 0o755
    marks = read(given.folder / FILE).marks
    assert marks and f"({'; '.join(marks)})" in (tmp_path / "site" / "index.html").read_text()
    given.folder.chmod(0o755)


def test_a_name_cannot_leave_its_place_in_the_page(tmp_path: Path) -> None:
    odd = replace(trial(), machine=MACHINE | {"cpu_model": "</script><script>alert(1)</script>"})
    folder = store(tmp_path / "odd", odd)
    assert main(["site", str(folder), "--out", str(tmp_path / "site")]) == 0
    page = (tmp_path / "site" / "index.html").read_text()
    assert "alert(1)" in page and "<script>alert(1)" not in page
