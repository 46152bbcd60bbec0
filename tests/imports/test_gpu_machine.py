"""Nothing is imported on a lent machine with a card but the standard library and the packages that it has."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from each import for_each
from imported import targets

from tools.gpu_travel import ROOT, read_carried_packages, read_machine_packages

FOLDERS = ("runner", "reports", "workloads", "adapters/worker", "adapters/pytorch", "adapters/jax", "adapters/numpy",
           "adapters/jax_shared", "adapters/keras_jax", "adapters/keras_shared", "adapters/keras_torch")  # fmt: skip
TOOLS = ("gpu_card", "gpu_day", "gpu_probe", "gpu_seen")
# Modules that are called otherwise than their package.
MODULES = {"nvidia-ml-py": "pynvml", "pillow": "PIL", "Jinja2": "jinja2"}
# What is done on other machines: blocks by Ray, the weights of Keras files, a published report's citation, ONNX files,
# an MLflow server's runs.
ELSEWHERE = {
    **{f"workloads/source/{path.name}": "onnx" for path in (ROOT / "workloads" / "source").glob("onnx_*.py")},
    "runner/cluster/ray_engine.py": "ray",
    "workloads/source/keras_weights.py": "h5py",
    "reports/publishing/citation.py": "yaml",
    "reports/exporting/to_mlflow.py": "mlflow",
}
OWN = {"runner", "reports", "workloads", "adapters", "tools"}


def read_files() -> list[Path]:
    """Return the files that travel and may be imported there, below the repository."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found += [*(ROOT / "adapters").glob("*.py"), *(ROOT / "tools" / f"{name}.py" for name in TOOLS)]
    return sorted(path.relative_to(ROOT) for path in found if "tracing" not in path.parts)


def find_missing(source: str, file: Path) -> list[str]:
    """Return the imports of a file that the machine cannot follow."""
    there = {MODULES.get(name, name) for name in (*read_machine_packages(), *read_carried_packages())}
    known = {*there, *sys.stdlib_module_names, *OWN, ELSEWHERE.get(str(file), "")}
    return [f"{file}:{line}: {name}" for line, name in targets(source, file) if name.split(".")[0] not in known]


@pytest.mark.slow
def test_a_lent_machine_has_every_package_that_is_imported_there() -> None:
    files = read_files()
    assert {Path("runner/sampler/nvml.py"), Path("adapters/pytorch/adapter.py"), Path("tools/gpu_day.py")} <= set(files)
    assert [said for file in files for said in find_missing((ROOT / file).read_text(encoding="utf-8"), file)] == []


@for_each(
    "source", ["import shtab", "from tensorflow import keras", "import importlib\nimportlib.import_module('ray')"]
)
def test_a_package_that_the_machine_lacks_is_caught(source: str) -> None:
    ast.parse(source)
    assert len(find_missing(source, Path("runner/new.py"))) == 1


def test_what_is_carried_is_what_the_runner_pins() -> None:
    pinned = dict(
        line.split(" ")[0].split("==")
        for line in (ROOT / "runner" / "requirements.txt").read_text().splitlines()
        if "==" in line
    )
    assert read_carried_packages()["msgspec"] == pinned["msgspec"]
    assert not set(read_carried_packages()) & set(read_machine_packages())
