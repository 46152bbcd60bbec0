from __future__ import annotations

import json
import lzma
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
import stored
import yaml
from PIL import Image
from stored import on_gpu, store
from test_report_check import run_trial

from reports import build, check, export, load
from reports.load import ReportError
from reports.publishing import archive, citation, cleaning, contents, publication, publish, published_files
from reports.publishing import index as published_index
from reports.publishing.archive import CHECKSUMS
from reports.publishing.citation import Credit
from reports.publishing.publish import list_obstacles
from workloads import own_names
from workloads.catalogue import TINY
from workloads.own_names import name_node
from workloads.records import files, network
from workloads.records.status import Status
from workloads.unpacking import extract_all

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAME = "2025-11-21-intel-xeon-processor"
FRAMEWORKS = ("tensorflow", "pytorch")
AUTHOR = "Lovelace, Ada"
CREDIT = Credit((AUTHOR,))
trial, ended = partial(stored.trial, study="own"), partial(stored.ended, study="own")  # what it asks for nobody knows


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A complete results folder: two frameworks at two batch sizes, with a path that is not ASCII."""
    folder = tmp_path / "Ergebnisse Ω"
    for framework in FRAMEWORKS:
        for size in (32, 64):
            run_trial(folder, trial(framework, size))
    return folder


@pytest.fixture(autouse=True)
def _tables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish only tables: charts and the page take most of a report's time and are tested apart."""
    monkeypatch.setattr(contents, "FORMATS", ("md", "csv"))


def found(results: Path) -> list[str]:
    return list_obstacles(load.read(results), results)


def edit(results: Path, change: Callable[[dict[str, Any]], object], pattern: str = "pytorch-*b00032*") -> None:
    (path,) = results.glob(f"trials/{pattern}/result.json")
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def unpacked(folder: Path, into: Path) -> Path:
    with tarfile.open(folder / archive.ARCHIVE) as packed:
        extract_all(packed, into)
    return into / "results"


def test_the_command_publishes_page_pictures_archive_and_citation_and_checksums_of_it_all(
    results: Path, tmp_path: Path
) -> None:
    into = tmp_path / "veröffentlicht"
    told = [sys.executable, "-m", "reports", "publish", str(results), "--into", str(into), "--author", AUTHOR]
    ran = subprocess.run(told, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"Published: {into / NAME} (")
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=into / NAME, capture_output=True, text=True)
    assert checked.returncode == 0
    there = {path.name for path in (into / NAME).iterdir()}
    assert set(re.findall(r"^(.*): OK$", checked.stdout, re.MULTILINE)) == there - {"SHA256SUMS"}
    pictures = {"usage.png", "memory.png", "accuracy.png", "speed.png", "memory-split.png"}
    assert there == pictures | {
        "report.html", "RULES.md", "results.tar.xz", "inputs.sha256", "publication.json", "CITATION.cff",
        "citation.bib", "SHA256SUMS",
    }  # fmt: skip
    assert sorted(path.name for path in into.iterdir()) == [NAME, "index.html"]


@pytest.mark.parametrize("command", [("publish", "--author", AUTHOR, "--into"), ("submit", "--out"), ("site", "--out")])
def test_a_full_disk_is_one_line_and_leaves_the_results_as_they_were(
    command: tuple[str, ...], results: Path, tmp_path: Path
) -> None:
    """No file may be larger than the limit: writing fails as on a full disk."""
    name, *options = command
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    told = [sys.executable, "-m", "reports", name, str(results), *options, str(tmp_path / "out.tar.xz")]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    ran = subprocess.run(told, cwd=ROOT, capture_output=True, text=True, preexec_fn=limit)
    assert ran.returncode == 2 and ran.stderr.startswith("reports: "), ran.stderr
    assert ran.stderr.count("\n") == 1 and "File too large" in ran.stderr, ran.stderr
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before


def test_the_report_can_be_made_again_from_the_archive(results: Path, tmp_path: Path) -> None:
    done = publish.publish(results, tmp_path / "published", CREDIT)
    unpacked(done.folder, tmp_path)
    with chdir(tmp_path):
        export.write(build.build_report([Path("results")]), tmp_path / "again", ("md", "csv"))
    for name in ("report.md", "speed.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (done.folder / name).read_bytes()


def test_no_path_of_this_machine_is_published(results: Path, tmp_path: Path) -> None:
    folder = publish.publish(results, tmp_path / "published", CREDIT).folder
    shutil.copytree(unpacked(folder, tmp_path), tmp_path / "all")
    shutil.copytree(folder, tmp_path / "all", dirs_exist_ok=True)
    for path in (path for path in (tmp_path / "all").rglob("*") if path.is_file()):
        assert str(tmp_path.parent).encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (Status.FAILED, "1 trial failed"),
        (Status.TIMEOUT, "1 trial timeout"),
        (Status.UNSUPPORTED, "1 trial unsupported"),
        (Status.CONTENDED, "1 trial contended"),
        (Status.UNVERIFIED, "1 trial unverified"),
    ],
)
def test_a_trial_that_did_not_end_well_is_not_published(
    results: Path, tmp_path: Path, status: Status, told: str
) -> None:
    store(results, ended(status, "its reason", "tensorflow", 128), trial("pytorch", 128))
    assert any(line.startswith(f"{told} (tensorflow-cpu-b00128-") and "its reason" in line for line in found(results))
    with pytest.raises(ReportError, match=told):
        publish.publish(results, tmp_path / "published", CREDIT)
    assert not (tmp_path / "published").exists()


@pytest.mark.parametrize("damage", ["cell", "truncated", "schema", "commit", "dirty", "figure", "unfinished", "home"])
def test_results_that_are_not_complete_and_whole_are_refused(results: Path, damage: str) -> None:
    (path,) = results.glob("trials/pytorch-*b00032*/result.json")
    match damage:
        case "cell":
            shutil.rmtree(path.parent)
            told = r"1 trial planned and not there \(PyTorch, batch size 32, repeat 0\)"
        case "truncated":
            path.write_text(path.read_text()[:400])
            told = r"1 result unreadable \(.*result.json: not whole JSON"
        case "schema":
            edit(results, lambda data: data.update(schema_version=99))
            told = r"1 result of another schema version \(.*schema version 99, this program reads 5; commit \w+ made it"
        case "commit":
            edit(results, lambda data: data["machine"].pop("commit"))
            told = r"1 trial of a commit that is unknown \(pytorch-"
        case "dirty":
            edit(results, lambda data: data["machine"].update(commit="afa2864-dirty"))
            told = r"1 trial of a commit with uncommitted changes \(pytorch-.*: afa2864-dirty"
        case "figure":
            edit(results, lambda data: data["figures"]["images_per_s"].update(value=9000.0))
            told = r"\d findings? by python -m reports check \("
        case "unfinished":
            (results / "trials" / "mxnet-cpu-b00032-r0-00000000").mkdir()
            told = r"1 trial unfinished \(.*mxnet-cpu-b00032"
        case "home":
            edit(results, lambda data: data["facts"].update(path="/home/alice/lib"))
            told = r"1 file naming a home directory or what looks like a secret \(.*result.json"
    assert [line for line in found(results) if re.match(told, line)], found(results)


def test_complete_results_have_nothing_in_their_way_and_out_of_memory_is_a_finding(results: Path) -> None:
    assert found(results) == []
    store(results, *(ended(Status.OUT_OF_MEMORY, "killed", name, 128, checks=[]) for name in FRAMEWORKS))
    assert found(results) == []


def test_repeats_that_ended_when_a_cell_was_stable_are_no_gap(results: Path) -> None:
    run_trial(results, trial("pytorch", 32, 1))
    assert len(found(results)) == 1
    (results / "stable.json").write_text("{}")
    assert found(results) == []
    run_trial(results, trial("pytorch", 64, 2))
    assert "PyTorch, batch size 64, repeat 1" in found(results)[0]


def test_a_study_that_was_broken_off_between_batch_sizes_or_repeats_is_refused_and_anyway_says_so(
    results: Path, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    for framework in FRAMEWORKS:
        run_trial(part, trial(framework, 32, study="osu-2020", dataset="cifar10"))
    told = "not run of the study osu-2020 as it is defined: batch size 4, 8, 16, 64, .* and 1024 and 2 of 3 repeats"
    with pytest.raises(ReportError, match=told):
        publish.publish(part, tmp_path / "published", CREDIT)
    folder = publish.publish(part, tmp_path / "published", CREDIT, anyway=True).folder
    assert re.search(f"Published with known faults: {told}", (folder / "report.md").read_text())


def test_results_still_being_written_are_refused(results: Path, tmp_path: Path) -> None:
    lock = results / ".lock"
    lock.touch()
    code = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(ReportError, match="a run is still writing into the folder"):
            publish.publish(results, tmp_path / "published", CREDIT)
        holder.communicate(b"\n")


def test_anyway_publishes_with_a_mark_in_report_index_and_citation(results: Path, tmp_path: Path) -> None:
    edit(results, lambda data: data["machine"].update(commit="afa2864-dirty"))
    folder = publish.publish(results, tmp_path / "published", CREDIT, anyway=True).folder
    mark = "Published with known faults: 1 trial of a commit with uncommitted changes"
    assert mark in (folder / "report.md").read_text().split("## How to read")[0]
    assert mark in (folder.parent / "index.html").read_text()
    told = yaml.safe_load((folder / "CITATION.cff").read_text())
    assert told["message"].startswith(mark)
    assert told["abstract"].startswith(mark)
    assert "note = {published with known faults; " in (folder / "citation.bib").read_text()
    assert publication.read(folder / "publication.json").marks[0].startswith(mark)


def test_publishing_the_same_again_changes_nothing_unless_the_publication_was_changed(
    results: Path, tmp_path: Path
) -> None:
    first = publish.publish(results, tmp_path / "published", CREDIT)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in first.folder.iterdir()}
    for path in results.rglob("*"):
        os.utime(path, (1, 1))
    again = publish.publish(results, tmp_path / "published", CREDIT)
    assert (first.fresh, again.fresh, again.folder) == (True, False, first.folder)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in first.folder.iterdir()} == before
    folder = publish.publish(results, tmp_path / "published", CREDIT).folder
    (folder / "report.md").write_text("better")
    with pytest.raises(ReportError, match="or this one was changed"):
        publish.publish(results, tmp_path / "published", CREDIT)


def test_another_publication_of_the_name_is_not_overwritten_unasked(results: Path, tmp_path: Path) -> None:
    into = tmp_path / "published"
    first = publish.publish(results, into, CREDIT).folder
    old = (first / "SHA256SUMS").read_bytes()
    edit(results, lambda data: data["machine"].update(commit="bbbbbbb"))
    with pytest.raises(ReportError, match="another publication has this name"):
        publish.publish(results, into, CREDIT)
    assert (first / "SHA256SUMS").read_bytes() == old
    assert publish.publish(results, into, CREDIT, name="second").folder == into / "second"
    assert publish.publish(results, into, CREDIT, replace=True).folder == first
    assert (first / "SHA256SUMS").read_bytes() != old
    assert sorted(path.name for path in into.iterdir()) == [first.name, "index.html", "second"]


def test_nothing_but_a_publication_and_its_index_is_ever_replaced(results: Path, tmp_path: Path) -> None:
    named = results.rename(results.with_name("raw"))
    before = {path: path.read_bytes() for path in named.rglob("*") if path.is_file()}
    with pytest.raises(ReportError, match="is no publication, and would be lost"):
        publish.publish(named, named.parent, CREDIT, name="raw", replace=True)
    assert {path: path.read_bytes() for path in named.rglob("*") if path.is_file()} == before
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("my page")
    with pytest.raises(ReportError, match="no publication lies next to it, and it would be lost"):
        publish.publish(named, tmp_path / "site", CREDIT)
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]
    assert (tmp_path / "site" / "index.html").read_text() == "my page"


def test_another_study_of_the_same_day_and_machine_carries_its_name(results: Path, tmp_path: Path) -> None:
    publish.publish(results, tmp_path / "published", CREDIT)
    other = run_trial(tmp_path / "other", trial(study="another")).parents[1]
    assert publish.publish(other, tmp_path / "published", CREDIT).folder.name == f"{NAME}-another"
    assert publish.publish(results, tmp_path / "published", CREDIT).folder.name == NAME


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_broken_off_publication_leaves_nothing(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr(citation, "format_bibtex", fail)
    with pytest.raises((ReportError, KeyboardInterrupt)):
        publish.publish(results, tmp_path / "published", CREDIT)
    assert list((tmp_path / "published").iterdir()) == []


def test_what_a_killed_publisher_left_is_removed(results: Path, tmp_path: Path) -> None:
    (tmp_path / "published" / ".publishing-old").mkdir(parents=True)
    publish.publish(results, tmp_path / "published", CREDIT)
    assert sorted(path.name for path in (tmp_path / "published").iterdir()) == [NAME, "index.html"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_replacement_that_is_broken_off_leaves_the_old_one_in_its_place(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    old = publish.publish(results, tmp_path / "published", CREDIT).folder
    before = (old / "SHA256SUMS").read_bytes()
    edit(results, lambda data: data["machine"].update(commit="bbbbbbb"))
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if target == old and not path.name.startswith(publish.REPLACED):
            raise error
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((ReportError, KeyboardInterrupt)):
        publish.publish(results, tmp_path / "published", CREDIT, replace=True)
    assert (old / "SHA256SUMS").read_bytes() == before
    assert sorted(path.name for path in old.parent.iterdir()) == [NAME, "index.html"]


def test_what_a_killed_replacement_took_away_is_put_back_and_named(results: Path, tmp_path: Path) -> None:
    old = publish.publish(results, tmp_path / "published", CREDIT).folder
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    old.rename(old.with_name(f"{publish.REPLACED}{NAME}"))
    done = publish.publish(results, tmp_path / "published", CREDIT, name="second")
    assert done.warnings == (f"{old}: restored because its replacement was killed",)
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before
    assert sorted(path.name for path in old.parent.iterdir()) == [NAME, "index.html", "second"]


def test_trials_whose_folders_are_links_are_refused_and_anyway_says_so(results: Path, tmp_path: Path) -> None:
    (first, *_) = sorted((results / "trials").iterdir())
    elsewhere = first.rename(tmp_path / first.name)
    first.symlink_to(elsewhere, target_is_directory=True)
    told = "1 of its trials left out because their folders are links or hold links"
    with pytest.raises(ReportError, match=told):
        publish.publish(results, tmp_path / "published", CREDIT)
    done = publish.publish(results, tmp_path / "published", CREDIT, anyway=True)
    assert told in publication.read(done.folder / "publication.json").marks[0]
    assert first.name not in {path.name for path in (unpacked(done.folder, tmp_path) / "trials").iterdir()}


def test_data_sets_links_and_unknown_files_stay_at_home(results: Path, tmp_path: Path) -> None:
    (results / "inputs").mkdir()
    (results / "inputs" / "train.npy").write_text("images")
    (tmp_path / "secret").write_text("token")
    (first, *_) = sorted((results / "trials").iterdir())
    (first / "log.txt").symlink_to(tmp_path / "secret")
    (first / "core").write_text("memory")
    (results / "notes.txt").write_text("mine")
    done = publish.publish(results, tmp_path / "published", CREDIT)
    assert done.warnings == (
        f"left out because no report reads it: {results / 'notes.txt'}, {first / 'core'}, {first / 'log.txt'}",
    )
    held = lzma.decompress((done.folder / archive.ARCHIVE).read_bytes())
    assert not [word for word in (b"images\n", b"token", b"memory\0", b"mine", b"inputs/train.npy") if word in held]
    assert (done.folder / contents.INPUTS).read_text() == "00  inputs/order.npy\n"


def test_a_file_that_nobody_could_unpack_is_refused_by_its_name(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = (folder / "log.txt" for folder in results.glob("trials/pytorch-*b00032*"))
    log.write_text("x" * 200_001)
    monkeypatch.setattr(published_files, "MOST_FILE_BYTES", 200_000)
    with pytest.raises(ReportError, match=re.escape(f"{log}: 200,001 bytes, at most 200,000 are read from an archive")):
        publish.publish(results, tmp_path / "published", CREDIT, anyway=True)
    assert not (tmp_path / "published").exists()


def test_which_computer_answered_is_published_with_its_answers(results: Path, tmp_path: Path) -> None:
    for folder in (results / "probes" / "pytorch-cpu-r0-12345678", results / "memory" / "pytorch-cpu-12345678-1"):
        folder.mkdir(parents=True)
        (folder / files.COMPUTER_FILE).write_text("{}")
    assert published_files.copy(results, tmp_path / "copied") == []
    archive.pack(tmp_path / "copied", tmp_path / "copied.tar.xz")
    into = tmp_path / "unpacked"
    archive.unpack(tmp_path / "copied.tar.xz", into)
    assert len(list(into.glob(f"*/*/*/{files.COMPUTER_FILE}"))) == 2


def test_networks_are_published_with_the_trials_as_they_were_and_changed_ones_are_not(
    results: Path, tmp_path: Path
) -> None:
    (results / "inputs").mkdir()
    text = network.to_text(TINY).encode()
    name = f"tiny-network-{network.digest(TINY)}.json"
    (results / "inputs" / name).write_bytes(text)
    (results / "inputs" / name.replace(network.digest(TINY), 12 * "0")).write_bytes(text)
    done = publish.publish(results, tmp_path / "published", CREDIT)
    (published,) = (unpacked(done.folder, tmp_path) / "inputs").iterdir()
    assert published.name == name and network.read(published).layers == TINY.layers


def test_a_log_is_published_without_home_directory_and_host() -> None:
    log = (
        b'  File "/home/al ice/x.py"\n  File "/home/alice/batch/adapters/worker.py", line 3\n/root/.cache: no\n'
        b"/rooted/x /Users/bob/y\nhostname: lab7.example.org\nretrieving information for host: lab7\n"
    )
    assert cleaning.remove_names(log) == (
        b'  File "~ ice/x.py"\n  File "~/batch/adapters/worker.py", line 3\n~/.cache: no\n'
        b"/rooted/x ~/y\nhostname: HOST\nretrieving information for host: HOST\n"
    )


def test_the_archive_is_the_same_bytes_for_the_same_content(tmp_path: Path) -> None:
    for side, names in (("a", ("x", "é")), ("b", ("é", "x"))):
        folder = tmp_path / side / "results"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text(name)
            os.utime(folder / name, (len(side) + ord(side), 7))
            (folder / name).chmod(0o600 if side == "a" else 0o664)
        archive.pack(folder, tmp_path / f"{side}.tar.xz")
    assert (tmp_path / "a.tar.xz").read_bytes() == (tmp_path / "b.tar.xz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.xz") as packed:
        assert [(entry.name, entry.mtime, entry.uid, entry.mode) for entry in packed] == [
            ("results/x", 0, 0, 0o644), ("results/é", 0, 0, 0o644),
        ]  # fmt: skip


def facts(**changes: Any) -> publication.Publication:
    told = load.Stored((trial(), trial("mxnet")), (), (), ())
    found = publication.Found("PyTorch leads", ("PyTorch is first.",), "speed.png")
    return msgspec.structs.replace(publication.build_publication(told, NAME, found), **changes)


def test_the_citation_file_and_the_note_of_bibtex_have_what_their_formats_ask_for() -> None:
    told = yaml.safe_load(citation.format_cff(facts(), "results.tar.xz", "ab" * 32))
    # https://github.com/citation-file-format, schema 1.2.0: required are authors, cff-version, message, title.
    assert (told["cff-version"], told["type"], told["date-released"]) == ("1.2.0", "dataset", "2025-11-21")
    assert told["authors"] == [{"name": "Batchwise contributors"}]  # published before they were stored
    assert told["title"] == (
        "Batchwise: PyTorch, MXNet: osu-cnn on digits, Intel(R) Xeon(R) Processor, 2 cores, 2025-11-21"
    )
    assert told["identifiers"][0]["value"] == "sha256:" + "ab" * 32
    assert told["abstract"].endswith("; 2 trials: 2 ok; started 2025-11-21 (UTC); commit afa2864. PyTorch is first.")
    note = next(line for line in citation.format_bibtex(facts(findings=["x" * 999])).splitlines() if "note = " in line)
    assert note == "  note = {osu-cnn on digits on Intel(R) Xeon(R) Processor, 2 cores, measured 2025-11-21}"
    evil = 'x: "y" # {50%} & \\o_O\n- <b>'
    told = facts(title=evil, machines=[evil])
    assert yaml.safe_load(citation.format_cff(told, "a", "b"))["title"] == f"Batchwise: {evil}"
    title = next(line for line in citation.format_bibtex(told).splitlines() if "title" in line)
    assert r"x: ``y'' \# \{50\%\} \& \textbackslash{}o\_O - \textless{}b\textgreater{}" in title


@pytest.mark.parametrize("name", ["Smith and Sons, Inc.", "Research AND Development", "Smith and Sons"])
def test_an_author_with_an_and_in_the_name_is_one_author(name: str) -> None:
    told = facts(authors=["Lovelace, Ada", name])
    assert f"  author = {{Lovelace, Ada and {{{name}}}}}," in citation.format_bibtex(told).splitlines()
    authors = yaml.safe_load(citation.format_cff(told, "a", "b"))["authors"]
    assert authors == [{"family-names": "Lovelace", "given-names": "Ada"}, {"name": name}]


@pytest.mark.parametrize(
    ("model", "told"),
    [("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "intel-xeon-cpu-e5-2680-v4-2-40ghz"), ("AMD EPYC", "amd-epyc"),
     ("../../etc <b>", "etc-b"), ("Élbrus", "elbrus"), ("Эльбрус", "unnamed"), ("x" * 99, "x" * 60)],
)  # fmt: skip
def test_a_machine_makes_a_folder_name(model: str, told: str) -> None:
    assert publication.make_slug(model) == told


def test_a_publication_is_named_by_the_gpu_where_there_is_one() -> None:
    stored = load.Stored((on_gpu(trial()),), (), (), ())
    assert publication.propose_names(stored)[0] == "2025-11-21-nvidia-h200"


class Texts(HTMLParser):
    """The tags and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def test_the_index_lists_what_lies_in_the_folder_newest_first_and_escaped(tmp_path: Path) -> None:
    for name, day, machine in (("a", "2025-01-01", "<script>x</script>"), ("b", "2025-02-01", "AMD & Co")):
        (tmp_path / name).mkdir()
        told = facts(name=name, first_day=day, machines=[machine], title=f"Title {machine}", marks=["Not <whole>."])
        (tmp_path / name / "publication.json").write_text(publication.format_publication(told))
    (tmp_path / "a" / "report.html").touch()
    for file in ("a/usage.png", "a/speed.png"):
        (tmp_path / file).touch()
    older = json.loads((tmp_path / "b" / "publication.json").read_text())
    del older["headline"], older["picture"]
    (tmp_path / "b" / "publication.json").write_text(json.dumps(older))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "publication.json").write_text('{"schema_version": 1, "name": "<b>"')
    (tmp_path / "series.csv").touch()
    assert [line.split(":")[0] for line in published_index.write(tmp_path)] == ["broken"]
    html = (tmp_path / "index.html").read_text()
    page = Texts()
    page.feed(html)
    assert page.links == ["b/publication.json", "a/report.html", "a/speed.png", "a/report.html"]
    assert page.tags.count("script") == 1 and "<script>x" not in html
    assert '<p class="mark">Not &lt;whole&gt;.</p>' in html
    assert '<form id="filters" autocomplete="off" hidden>' in html, "a reload shows every report, and so say the menus"
    older_says, newer_says = "PyTorch is first.</a>", "PyTorch leads</a>"
    assert html.index(older_says) < html.index(newer_says), "each what it found about its question, the newest first"
    assert "broken: publication.json: " in html


@pytest.mark.parametrize(
    "change", [{"trials": {"ok": "27"}}, {"marks": "none"}, {"name": 3}, {"schema_version": 2}, {"more": 1}]
)
def test_a_hand_edited_publication_file_is_not_read(tmp_path: Path, change: dict[str, Any]) -> None:
    told = json.loads(publication.format_publication(facts())) | change
    (tmp_path / "publication.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match=next(iter(change))):
        publication.read(tmp_path / "publication.json")


def test_bad_input_of_publishing_is_one_line_and_exit_code_2(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    other = store(tmp_path / "failed", ended(Status.FAILED, "a\nb <i>"))
    (unreadable,) = store(tmp_path / "unreadable", trial()).glob("trials/*/result.json")
    unreadable.write_text("{")
    for arguments, told in [
        ((tmp_path / "absent", "--author", AUTHOR), "no such folder"),
        ((results, "--author", AUTHOR, "--into", tmp_path / "file"), "cannot be written"),
        ((results, "--author", AUTHOR, "--name", "../up"), "--name ../up: use lower case letters"),
        ((other, "--author", AUTHOR, "--into", tmp_path / "p"), "1 trial failed (pytorch-"),
        (
            (tmp_path / "unreadable", "--author", AUTHOR, "--anyway", "--into", tmp_path / "p"),
            "none of its results can be read",
        ),
    ]:
        assert publish.main([str(argument) for argument in arguments]) == 2
        out, errors = capsys.readouterr()
        assert (out, errors.count("\n")) == ("", 1)
        assert told in errors
    assert not (tmp_path / "p").exists()


def test_the_page_carries_the_mark_and_pictures_are_small(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "FORMATS", ("html", "md", "png"))
    edit(results, lambda data: data["machine"].update(commit="afa2864-dirty"))
    folder = publish.publish(results, tmp_path / "published", CREDIT, anyway=True).folder
    assert "Published with known faults: 1 trial of a commit" in (folder / "report.html").read_text("utf-8")
    with Image.open(folder / "speed.png") as picture:
        assert (picture.mode, picture.info["Title"]) == ("P", "Training speed, images/s, mean over the steady window")
        assert round(picture.info["dpi"][0]) == 200
    assert f'href="{NAME}/report.html"' in (folder.parent / "index.html").read_text()


def of_day(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    monkeypatch.setattr(publish, "today", lambda: day)


def test_a_publication_is_made_again_from_its_archive_and_only_the_day_of_publishing_is_new(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_day(monkeypatch, "2025-11-22")
    old = publish.publish(results, tmp_path / "published", CREDIT, name="its-name").folder
    before = publication.read(old / publication.FILE)
    packed = (old / archive.ARCHIVE).read_bytes()
    of_day(monkeypatch, "2026-01-02")
    monkeypatch.setattr(contents, "FORMATS", ("md",))  # the code for reports has changed since
    monkeypatch.setattr(published_files, "remove_names", lambda text: text + b"!")  # other names in logs
    for given in (old, old / archive.ARCHIVE):
        done = publish.publish(given, tmp_path / "published", CREDIT, replace=True)
        assert done.folder == old
        again = publication.read(old / publication.FILE)
        assert again == msgspec.structs.replace(before, published_day="2026-01-02")
        assert (again.first_day, again.commits) == ("2025-11-21", ["afa2864"])
        assert (old / archive.ARCHIVE).read_bytes() == packed
        assert not (old / "speed.csv").exists()
    assert yaml.safe_load((old / "CITATION.cff").read_text())["date-released"] == "2026-01-02"
    assert "year = {2026}" in (old / "citation.bib").read_text()
    assert "Measured 2025-11-21, published 2026-01-02." in (old.parent / "index.html").read_text()


@pytest.mark.parametrize("called", ["../published/other", "other", "."])
def test_a_publication_that_has_another_name_than_its_folder_replaces_no_other(
    results: Path, tmp_path: Path, called: str
) -> None:
    into = tmp_path / "published"
    other = publish.publish(results, into, CREDIT, name="other").folder
    copied = shutil.copytree(other, into / "copied")
    facts = json.loads((copied / publication.FILE).read_text()) | {"name": called}
    (copied / publication.FILE).write_text(json.dumps(facts))
    before = archive.format_checksums(other)
    with pytest.raises(ReportError, match="name the new one with --name"):
        publish.publish(copied, into, CREDIT, replace=True)
    assert archive.format_checksums(other) == before and {path.name for path in into.iterdir() if path.is_dir()} == {
        "other",
        "copied",
    }
    assert publish.publish(copied, into, CREDIT, name="copied", replace=True).folder == into / "copied"


def test_the_same_published_on_a_later_day_keeps_the_day_of_its_first(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_day(monkeypatch, "2025-11-22")
    first = publish.publish(results, tmp_path / "published", CREDIT)
    of_day(monkeypatch, "2026-01-02")
    for given in (results, first.folder):
        assert publish.publish(given, tmp_path / "published", CREDIT).fresh is False
    assert publication.read(first.folder / publication.FILE).published_day == "2025-11-22"


def test_an_incomplete_publication_without_its_mark_gets_it_when_it_is_published_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code from before the mark left such a publication."""
    part, into = tmp_path / "part", tmp_path / "published"
    for framework in FRAMEWORKS:
        run_trial(part, trial(framework, 32, study="osu-2020", dataset="cifar10"))
    with monkeypatch.context() as before_marks:
        before_marks.setattr(publish, "list_obstacles", lambda stored, folder: [])
        folder = publish.publish(part, into, CREDIT).folder
    assert publication.read(folder / publication.FILE).marks == []
    with pytest.raises(ReportError, match="not run of the study osu-2020 as it is defined"):
        publish.publish(folder, into, CREDIT, replace=True)
    assert publication.read(folder / publication.FILE).marks == []
    assert publish.publish(folder, into, CREDIT, anyway=True, replace=True).folder == folder
    (mark,) = publication.read(folder / publication.FILE).marks
    assert mark.startswith("Published with known faults: not run of the study osu-2020 as it is defined: ")
    for text in (folder / "report.md", folder.parent / "index.html", folder / "CITATION.cff"):
        assert mark in " ".join(text.read_text().split())


@pytest.mark.parametrize(
    ("damage", "told"),
    [("other", "changed since it was published"), ("no archive", "not the archive of a results folder")],
)
def test_an_archive_that_is_not_the_published_one_is_refused(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, told: str
) -> None:
    folder = publish.publish(results, tmp_path / "published", CREDIT).folder
    archived = folder / archive.ARCHIVE
    archived.write_bytes(archived.read_bytes()[:1000])
    if damage == "no archive":
        (folder / CHECKSUMS).unlink()
    assert publish.main([str(folder), "--into", str(tmp_path / "again"), "--anyway"]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 1)
    assert str(archived) in errors and told in errors
    assert not (tmp_path / "again").exists()


def test_a_publication_of_before_days_of_publishing_were_stored_is_read(tmp_path: Path) -> None:
    told = json.loads(publication.format_publication(facts()))
    del told["published_day"]
    (tmp_path / "publication.json").write_text(json.dumps(told))
    assert publication.read(tmp_path / "publication.json").published_day is None


def test_a_log_is_published_without_secrets_and_without_this_machines_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/users/ann")
    monkeypatch.setattr("socket.gethostname", lambda: "node17.cluster.example.org")
    own_names.find_own_homes.cache_clear()
    own_names.find_own_hosts.cache_clear()
    try:
        log = (
            b"/data/users/ann/x.py /data/users/anna C:\\Users\\Bob\\x\nnode17 and node17.cluster.example.org, node170\n"
            b"pip index https://ann:pa55@pypi.example.org/simple?token=abcdefg&a=1\n"
            b"USER=ann\nAWS_SECRET_ACCESS_KEY=abc/def+gh\n{'HF_TOKEN': 'hf_abcdefgh', 'LANG': 'C'}\n"
            b"Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc\nghp_" + b"a" * 36 + b"\n"
            b'loss 0.25, class_token: [1, 2], "tokens": 4096, token: 0.125\n'
        )
        assert cleaning.remove_names(log) == (
            b"~/x.py /data/users/anna ~\\x\nHOST and HOST, node170\n"
            b"pip index https://***@pypi.example.org/simple?token=***&a=1\n"
            b"USER=***\nAWS_SECRET_ACCESS_KEY=***\n{'HF_TOKEN': '***', 'LANG': 'C'}\n"
            b"Authorization: ***\n***\n"
            b'loss 0.25, class_token: [1, 2], "tokens": 4096, token: 0.125\n'
        )
        assert cleaning.remove_names(cleaning.remove_names(log)) == cleaning.remove_names(log)
        assert cleaning.contains_names(log) and not cleaning.contains_names(cleaning.remove_names(log))
    finally:
        own_names.find_own_homes.cache_clear()
        own_names.find_own_hosts.cache_clear()


@pytest.mark.parametrize("field", ["node", "reason"])
def test_results_that_name_the_host_of_a_clusters_node_are_refused_and_anyway_warns(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    def name(host: str) -> None:
        def change(data: dict[str, Any]) -> None:
            lost = f"its node returned no result 3 times: {host}: exit code 1: killed"
            data["machine"] |= {"node": host} if field == "node" else {}
            data["reason"] = lost if field == "reason" else data["reason"]

        edit(results, change)

    def publish_into(folder: str, *options: str) -> tuple[int, str]:
        code = publish.main([str(results), "--into", str(tmp_path / folder), "--author", AUTHOR, *options])
        return code, capsys.readouterr().err

    told = "1 file naming the host of a cluster's node, which new runs do not store (results/trials/pytorch-"
    name(name_node("node17"))
    assert not [each for each in found(results) if "naming the host" in each]
    name("node17.cluster.example.org")
    code, errors = publish_into("refused")
    assert (code, errors.count("\n")) == (2, 1) and told in errors and "Run the trials again" in errors
    assert not (tmp_path / "refused").exists()
    code, errors = publish_into("anyway", "--anyway")
    assert code == 0 and f"published with a known fault: {told}" in errors
    assert "naming the host" in (tmp_path / "anyway" / NAME / "report.md").read_text()


def test_a_publication_whose_files_are_other_ones_is_a_finding_of_the_check(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = publish.publish(results, tmp_path / "published", CREDIT)
    assert check.main([str(done.folder)]) == 0
    (done.folder / "report.html").write_text("<p>faster</p>")
    (done.folder / "citation.bib").unlink()
    (done.folder / "more.txt").touch()
    capsys.readouterr()
    assert check.main([str(done.folder)]) == 1
    *findings, last = capsys.readouterr().out.splitlines()
    named = {line.removeprefix(f"{done.folder}/").partition(":")[0] for line in findings}
    assert named == {"report.html", "citation.bib", "more.txt"}
    assert last.endswith("3 found")


def test_the_citation_names_the_given_authors_title_doi_and_address(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "published"
    given = ["--author", AUTHOR, "--author", "Lab of R&D", "--title", "Ours"]
    given += ["--doi", "https://doi.org/10.5281/zenodo.17"]
    assert publish.main([str(results), "--into", str(into), *given, "--url", "https://example.org/a_b"]) == 0
    told = yaml.safe_load((into / NAME / "CITATION.cff").read_text())
    assert told["authors"] == [{"family-names": "Lovelace", "given-names": "Ada"}, {"name": "Lab of R&D"}]
    assert (told["title"], told["doi"], told["url"]) == ("Ours", "10.5281/zenodo.17", "https://example.org/a_b")
    bibtex = (into / NAME / "citation.bib").read_text()
    assert r"  author = {Lovelace, Ada and {Lab of R\&D}}," in bibtex
    assert "  title = {{Ours}}," in bibtex and "  doi = {10.5281/zenodo.17}," in bibtex
    assert "  url = {https://example.org/a_b}," in bibtex
    assert "<p>Ours</p>" in (into / "index.html").read_text()
    assert not [path for path in (into / NAME).iterdir() if b"Batchwise contributors" in path.read_bytes()]
    capsys.readouterr()


def test_a_publication_that_is_published_again_keeps_its_authors_or_gets_others(results: Path, tmp_path: Path) -> None:
    credit = Credit((AUTHOR,), "Ours", "10.5281/zenodo.17", "https://example.org")
    folder = publish.publish(results, tmp_path / "published", credit).folder
    assert publish.publish(folder, tmp_path / "published", Credit()).fresh is False
    publish.publish(folder, tmp_path / "published", Credit(("Babbage, Charles",)), replace=True)
    again = publication.read(folder / publication.FILE)
    assert (again.authors, again.given_title, again.doi) == (["Babbage, Charles"], "Ours", "10.5281/zenodo.17")


def test_a_publication_of_before_authors_were_stored_keeps_those_that_it_named(results: Path, tmp_path: Path) -> None:
    old = publish.publish(results, tmp_path / "published", CREDIT).folder
    told = json.loads((old / publication.FILE).read_text())
    for field in ("authors", "given_title", "doi", "url"):
        del told[field]
    (old / publication.FILE).write_text(json.dumps(told))
    publish.publish(old, tmp_path / "published", Credit(), replace=True)
    assert publication.read(old / publication.FILE).authors == ["Batchwise contributors"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "--author is missing: name who measured"),
        (["--author", " "], "--author ' ': give one line of text"),
        (["--author", AUTHOR, "--title", "a\nb"], "--title 'a\\nb': give one line of text"),
        (["--author", AUTHOR, "--doi", "zenodo"], "--doi zenodo: not a DOI; write it as 10.5281/zenodo.1234567"),
        (["--author", AUTHOR, "--url", "ftp://x"], "--url ftp://x: not an address; write it as https://"),
    ],
)
def test_nobody_or_a_wrong_doi_or_address_is_refused_before_anything_is_written(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], told: str
) -> None:
    assert publish.main([str(results), "--into", str(tmp_path / "published"), *given]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 1) and told in errors
    assert not (tmp_path / "published").exists()
