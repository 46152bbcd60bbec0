"""Own code: every chapter, table and file says that it is compared with nothing, as the stored trial has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stored import ended, make, numbers, rows, run, store, trial

from reports import build, export, load
from reports.conditions import group_into_sections
from workloads.records.check_name import CheckName
from workloads.records.network import OwnCode
from workloads.records.result import TrialResult
from workloads.records.status import Status
from workloads.setting_words import OWN_CODE, describe_model

OWN = OwnCode("pytorch", "my_net.py", "make_model", "1a2b3c4d5e6f", 10, (8, 8, 1))
TASK: dict[str, Any] = {"workload": "my-net", "own_code": OWN}


def own(framework: str = "pytorch", batch_size: int = 32, repeat: int = 0, **changes: Any) -> TrialResult:
    return trial(framework, batch_size, repeat, **TASK | changes)


def test_every_file_of_a_table_of_cells_says_so_whatever_the_cell_holds(tmp_path: Path) -> None:
    failed = ended(Status.FAILED, "ValueError: no such width", batch_size=64, **TASK)
    store(tmp_path, own(), failed)
    out = tmp_path / "report"
    export.write(build.build_report([tmp_path]), out, ("md", "csv", "latex", "html"))
    names = ("speed", "accuracy", "memory", "usage")
    files = [path for name in names for path in out.glob(f"{name}*.csv")]
    assert {path.stem for path in files} >= {*names}
    for path in files:
        assert numbers(path) and all(OWN_CODE in row["notes"] for row in numbers(path)), path
        assert OWN_CODE in path.with_suffix(".md").read_text()
        assert r"\textsuperscript{1" in path.with_suffix(".tex").read_text()
    assert rf"\textsuperscript{{1}}~{OWN_CODE}" in (out / "conditions.tex").read_text()
    assert f"my-net ({OWN_CODE}) on digits" in (out / "report.html").read_text()


def test_its_accuracy_is_held_against_nobodys_and_it_is_told_apart_from_what_nobody_looked_at(tmp_path: Path) -> None:
    trials = [own(name, 32, repeat) for name in ("pytorch@a", "pytorch@b") for repeat in range(3)]
    built = make(store(tmp_path, *trials), tmp_path / "report")
    assert "Accuracy parity is not stated: custom code, not compared." in built.markdown
    assert "Test accuracy, 72.0 %." in built.markdown, "a value, and no verdict"
    assert "Test accuracy within" not in built.markdown and "paired repeats" not in built.markdown
    assert list(rows(tmp_path / "report" / "speed.md"))[1:] == ["PyTorch @a", "PyTorch @b"]
    assert not (tmp_path / "report" / "parity.md").exists()
    assert all(check.name != CheckName.GATE for check in own().checks)
    once = make(store(tmp_path / "once", *trials[::3]), tmp_path / "once" / "report")
    assert "Test accuracy, 71.0 %." in once.markdown
    assert "paired repeats" not in once.markdown, "more repeats would not be compared either"
    built = make(store(tmp_path / "2", own(), own(batch_size=64), trial()), tmp_path / "2" / "report")
    assert "2 of 3 ok trials train custom code, not compared: it was checked only against itself." in built.markdown
    assert "1 of 3 ok trials have no check that they compute the same as the others." in built.markdown


def test_no_other_code_and_no_network_stands_in_a_table_with_it(tmp_path: Path) -> None:
    other = own(own_code=OwnCode("pytorch", "my_net.py", "make_model", "0" * 12, 10, (8, 8, 1)))
    larger = own(own_code=OwnCode("pytorch", "my_net.py", "make_model", "1a2b3c4d5e6f", 10, (32, 32, 1)))
    store(tmp_path, own(), other, larger, trial(workload="my-net"))
    parts, replaced = group_into_sections(load.read(tmp_path).results)
    assert len(parts) == 4 and not replaced
    assert sorted(describe_model(part.condition.task) for part in parts) == ["my-net", *[f"my-net ({OWN_CODE})"] * 3]


def test_two_folders_of_the_same_code_are_compared_and_say_so(tmp_path: Path) -> None:
    folders = []
    for day in ("20", "21"):
        at: dict[str, Any] = {"started_at": f"2025-11-{day}T10:00:00+00:00"}
        folders.append(store(tmp_path / day, *(own("pytorch", 32, repeat, **at) for repeat in range(3))))
    done = run("compare", *folders)
    assert done.returncode == 0, done.stderr
    assert OWN_CODE in done.stdout
    assert run("check", folders[0]).stderr == ""
