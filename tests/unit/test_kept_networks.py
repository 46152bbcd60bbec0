"""A kept network may be another person's: a run executes nothing that it names elsewhere, or as something else."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each import for_each
from test_keras_config import CONV, SMALL, VARIABLES, functional, layer, save, write
from test_source_code import CODE, ask, traced  # noqa: F401  # a fixture

from runner import import_model
from workloads import __main__ as program
from workloads import networks
from workloads.source import files
from workloads.source.imported import Imported

WORDS = ("--from", "pytorch", "--input-shape", "8", "8", "1")
OUTSIDE = "is outside of the folder of net.json, so it is not run: put it there and import the model again, or name "


def keep(file: Path, out: Path) -> dict[str, Any]:
    """Keep the network of this code, and return what was written."""
    file.write_text(CODE)
    out.parent.mkdir(exist_ok=True)
    assert import_model.main([f"{file}:make_model", *WORDS, "--out", str(out)]) == 0
    return dict(json.loads(out.read_text()))


def read(out: Path, origin: dict[str, Any]) -> Imported:
    """Read the kept network with another origin."""
    out.write_text(json.dumps(json.loads(out.read_text()) | {"origin": origin}))
    return networks.find_imported(str(out))


def test_code_that_a_kept_network_names_is_announced_once_before_it_is_run(
    tmp_path: Path,
    traced: list[Any],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, out = tmp_path / "my_net.py", tmp_path / "net.json"
    keep(file, out)
    capsys.readouterr()
    ask(tmp_path, "--workload", out, "--dataset", "digits")
    said = f"runner: {file} is run in PyTorch's worker, to compare the network with it"
    assert [line for line in capsys.readouterr().err.splitlines() if "is run" in line] == [said]


def test_a_model_outside_of_the_folder_is_neither_kept_as_the_origin_nor_read_as_one(
    tmp_path: Path,
    traced: list[Any],  # noqa: F811
) -> None:
    file, out = tmp_path / "my_net.py", tmp_path / "kept" / "net.json"
    assert keep(file, out)["origin"] == {"missing": f"my_net.py {OUTSIDE}the model itself"}
    inside, linked = keep(out.parent / "my_net.py", out)["origin"], out.parent / "linked.py"
    assert read(out, inside).origin is not None
    linked.symlink_to(file)
    for named in ("../my_net.py", str(file), "linked.py"):
        imported = read(out, inside | {"file": named})
        assert imported.origin is None and OUTSIDE in imported.unproven


@for_each(
    "changes",
    [
        {"file": "my_net.keras"},
        {"framework": "tensorflow"},
        {"framework": "tensorflow", "file": "my_net.keras"},
        {"digest": "0" * 12},
        {"digest": ""},
    ],
)
def test_code_that_is_described_as_something_else_is_no_origin(
    changes: dict[str, str],
    tmp_path: Path,
    traced: list[Any],  # noqa: F811
) -> None:
    out = tmp_path / "net.json"
    origin = keep(tmp_path / "my_net.py", out)["origin"]
    assert read(out, origin).origin is not None
    origin["map"]["code"] |= changes
    imported = read(out, origin)
    assert imported.origin is None and imported.unproven.endswith("; import the model again")


@pytest.mark.parametrize("change", [{"class_name": "Lambda"}, {"module": "evil", "registered_name": "evil>Net"}])
def test_a_keras_file_with_code_in_a_layer_is_no_origin(change: dict[str, str], tmp_path: Path) -> None:
    source, out = save(tmp_path, functional(*SMALL), VARIABLES), tmp_path / "net.json"
    assert program.main(["import", str(source), "--out", str(out)]) == 0
    origin = json.loads(out.read_text())["origin"]
    assert read(out, origin).origin is not None
    changed = layer("Conv2D", "conv", "images", **CONV) | change
    content = save(tmp_path, functional(changed, *SMALL[1:]), VARIABLES).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    origin["sha256"], origin["map"]["code"]["digest"] = digest, digest[:12]
    imported = read(out, origin)
    assert imported.origin is None and imported.unproven.startswith("my_net.keras: conv (")


def refuse(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Import, and return the one line by which that is refused."""
    capsys.readouterr()
    assert program.main(["import", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_an_import_replaces_no_file_that_no_import_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, data = (
        save(tmp_path, functional(*SMALL), VARIABLES),
        tmp_path / "flowers.json",
        tmp_path / "flowers.npz",
    )
    np.savez(data, x_train=np.zeros(3), y_train=np.zeros(3))
    before = data.read_bytes()
    words = [str(source), "--out", str(out)]
    unnamed = "flowers.npz: exists, and it is not the weights of flowers.json: give --out or --weights another"
    assert refuse(words, capsys).endswith(f"{unnamed} name, or remove it")
    assert data.read_bytes() == before and not out.exists()
    others = [*words, "--weights", str(tmp_path / "weights.npz")]
    for written in (b"[]", b'{"a": 1}', b"no JSON"):
        out.write_bytes(written)
        assert refuse(others, capsys).endswith("flowers.json: exists, and no import wrote it: give --out another name")
        assert out.read_bytes() == written and not (tmp_path / "weights.npz").exists()
    out.unlink()
    assert program.main(["import", *others]) == program.main(["import", *others]) == 0, "its own files are replaced"


@pytest.mark.parametrize(
    "arrays",
    [{}, {"a/b": np.zeros(3)}, {f"layer/{name}": np.ones(2) for name in ("kernel", "bias")}, "those of the network"],
)
def test_an_import_replaces_no_weights_but_those_that_its_network_names(
    arrays: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names with a slash are Flax's, too; a file without an array has none that looks wrong."""
    source, out = save(tmp_path, functional(*SMALL), VARIABLES), tmp_path / "flowers.json"
    words, data = [str(source), "--out", str(out)], tmp_path / "flowers.npz"
    np.savez(data, **((networks.find_imported(str(source)).weights or {}) if isinstance(arrays, str) else arrays))
    before = data.read_bytes()
    assert "flowers.npz: exists, and it is not the weights of flowers.json" in refuse(words, capsys)
    assert data.read_bytes() == before and not out.exists()
    assert program.main(["import", *words, "--weights", str(tmp_path / "other.npz")]) == 0
    written = out.read_bytes()
    assert "flowers.npz: exists, and it is not the weights of flowers.json" in refuse(words, capsys)
    out.write_text(json.dumps(json.loads(written) | {"weights": "flowers.npz"}))
    if not isinstance(arrays, str):
        assert "it is not the weights of flowers.json" in refuse(words, capsys), "its arrays are another network's"
        assert data.read_bytes() == before
    else:
        assert program.main(["import", *words]) == 0


def test_a_disk_that_is_full_is_one_line_with_the_file_that_was_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The system's error names no file when a write fails."""

    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "save", fill)
    words = [str(save(tmp_path, functional(*SMALL), VARIABLES)), "--out", str(tmp_path / "net.json")]
    assert refuse(words, capsys) == f"workloads: {tmp_path / 'net.npz'}: No space left on device"


def test_an_import_does_not_replace_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, functional(*SMALL))
    before = source.read_bytes()
    line = refuse([str(source), "--out", str(tmp_path / "." / source.name)], capsys)
    assert line.endswith("my_net.json: is the source itself: give --out another name")
    assert source.read_bytes() == before
