"""Check the import table of docs/extend/architecture.md: which package may import what."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from each import for_each
from imported import imported, targets

ROOT = Path(__file__).parents[2]
ROOMS = ("workloads", "adapters", "runner", "reports")
FILES = sorted(path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py"))
OF_RUNNER_AND_REPORTS = {  # modules of the neutral package that no worker imports, and what each needs
    "workloads/study.py": "msgspec",
    "workloads/records/stored_events.py": "msgspec",
    "workloads/records/stored.py": "msgspec",
    "workloads/records/validation.py": "msgspec",
    "workloads/statistics.py": "scipy",
    "workloads/source/keras_weights.py": "h5py",
    "workloads/source/onnx_file.py": "onnx",
    "workloads/source/onnx_graph.py": "onnx",
}
WITHOUT_NUMPY = ("layers", "spec", "study", "job", "result", "events", "figures", "files", "record")
TABLE = {
    "tensorflow": frozenset({"tensorflow", "keras"}),
    "pytorch": frozenset({"torch"}),
    "mxnet": frozenset({"mxnet"}),
    "numpy": frozenset(),
}
SHARED = {
    "jax_shared": frozenset({"jax", "jaxlib"}),
    "keras_shared": frozenset({"keras"}),
}  # packages of several adapters, which these may import


def own_modules(root: Path) -> dict[str, frozenset[str]]:
    """{adapter folder: modules only it may import}; folders outside TABLE say so in their environment.toml."""
    found = dict(TABLE)
    for folder in (path.parent for path in (root / "adapters").glob("*/environment.toml")):
        if folder.name not in TABLE:
            found[folder.name] = frozenset(tomllib.loads((folder / "environment.toml").read_text())["imports"])
    return found


def violations(source: str, file: Path, own: Mapping[str, frozenset[str]]) -> list[str]:
    """List the imports of `file` (its path below the repository) that the table forbids, one line each."""
    room = file.parts[0]
    adapter = file.parts[1] if room == "adapters" and len(file.parts) > 2 and file.parts[1] != "worker" else None
    frameworks = frozenset().union(*own.values()) - {"numpy"}

    def allowed(target: str) -> bool:
        top, *rest = target.split(".")
        if room in ("runner", "reports"):
            return top not in {*frameworks, "adapters", "runner", "reports"} - {room}
        if top in sys.stdlib_module_names or top == "workloads":
            return True
        if room == "workloads":
            without_numpy = file.stem in WITHOUT_NUMPY or file.parent.name in WITHOUT_NUMPY
            return (top == "numpy" and not without_numpy) or top == OF_RUNNER_AND_REPORTS.get(str(file))
        if top == "adapters":
            return not rest or rest[0] not in own or rest[0] == adapter
        return top == "numpy" or (adapter is not None and top in {**SHARED, **own}[adapter])

    return [f"{file}:{line}: imports {name}" for line, name in targets(source, file) if not allowed(name)]


@pytest.mark.slow
def test_every_file_imports_only_what_its_room_may() -> None:
    own = own_modules(ROOT)
    assert [said for file in FILES for said in violations((ROOT / file).read_text(encoding="utf-8"), file, own)] == []


def test_no_worker_reaches_a_module_that_needs_a_package_of_the_runner() -> None:
    reached = imported(file for file in FILES if file.parts[0] == "adapters")
    assert Path("workloads/records/job.py") in reached
    assert not reached & {Path(file) for file in OF_RUNNER_AND_REPORTS}


def home(file: Path) -> str:
    """Return the package of a file; a module that lies beside the packages of its room counts as one."""
    return str(file.parent if len(file.parts) > 2 else file)


def links() -> set[tuple[str, str]]:
    """(package, package that it imports from) over the whole product."""
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}
    found = set()
    for file in FILES:
        for _, target in targets((ROOT / file).read_text(encoding="utf-8"), file):
            if module := modules.get(target) or modules.get(target.rpartition(".")[0]):
                found.add((home(file), home(module)))
    return {(one, other) for one, other in found if one != other}


@pytest.mark.slow
def test_no_two_packages_import_each_other() -> None:
    found = links()
    assert ("runner/request", "runner/environments") in found
    assert [f"{one} <-> {other}" for one, other in sorted(found) if one < other and (other, one) in found] == []


def test_the_table_is_held_over_every_adapter_and_the_neutral_room() -> None:
    assert {Path("workloads/spec.py"), Path("adapters/worker/trial.py")} <= set(FILES)
    assert {Path(f"adapters/{name}/adapter.py") for name in TABLE} <= set(FILES)


@for_each(
    "file, source",
    [
        ("workloads/new.py", "import torch"),
        ("workloads/new.py", "from runner import plan"),
        ("workloads/new.py", "from adapters.base import Adapter"),
        ("workloads/new.py", "import pandas"),
        ("workloads/records/job.py", "import msgspec"),
        ("workloads/records/study.py", "import msgspec"),
        ("workloads/spec.py", "import numpy"),
        ("workloads/study.py", "def f():\n    from numpy.typing import NDArray"),
        ("workloads/records/job.py", "try:\n    import numpy as np\nexcept ImportError:\n    pass"),
        ("adapters/worker/trial.py", "import torch"),
        ("adapters/worker/trial.py", "from adapters.numpy.adapter import Adapter"),
        ("adapters/worker/trial.py", "from .. import pytorch"),
        ("adapters/base.py", "import psutil"),
        ("adapters/pytorch/adapter.py", "import tensorflow.keras"),
        ("adapters/pytorch/adapter.py", "import adapters.numpy.adapter"),
        ("adapters/pytorch/adapter.py", "from adapters import numpy"),
        ("adapters/pytorch/adapter.py", "from ..numpy import adapter"),
        ("adapters/pytorch/adapter.py", "from .. import numpy"),
        ("adapters/pytorch/adapter.py", "from runner.plan import plan"),
        ("adapters/numpy/adapter.py", "import scipy"),
        ("adapters/jax/adapter.py", "import flax"),
        ("runner/plan.py", "from adapters.base import Adapter"),
        ("runner/plan.py", "import importlib\nimportlib.import_module('torch')"),
        ("runner/plan.py", "__import__('keras')"),
        ("runner/plan.py", "import importlib\nimportlib.import_module(f'adapters.{name}.adapter')"),
        ("runner/plan.py", "from reports.load import load"),
        ("runner/plan.py", "import jax.numpy"),
        ("reports/tables.py", "from runner import cli"),
        ("reports/tables.py", "from ..adapters import base"),
        ("reports/tables.py", "if TYPE_CHECKING:\n    import mxnet as mx"),
    ],
)
def test_a_forbidden_import_is_caught(file: str, source: str) -> None:
    assert len(violations(source, Path(file), {**TABLE, "jax": frozenset({"jax"})})) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("workloads/datasets.py", "from __future__ import annotations\nimport numpy as np\nfrom .spec import Shape"),
        ("adapters/worker/__main__.py", "import importlib\nimportlib.import_module(f'adapters.{name}.adapter')"),
        ("adapters/worker/trial.py", "from adapters.base import Adapter\nfrom workloads import weights"),
        ("adapters/pytorch/adapter.py", "from torch import nn\nfrom ..base import Adapter\nfrom .helper import x"),
        ("adapters/jax/adapter.py", "import jax.numpy"),
        ("runner/plan.py", "import psutil, numpy\nfrom . import launch\nfrom workloads.records.job import TrialSpec"),
        ("reports/tables.py", "import pandas\nfrom reports.load import load\nfrom workloads.records import job"),
    ],
)
def test_an_allowed_import_passes(file: str, source: str) -> None:
    assert violations(source, Path(file), {**TABLE, "jax": frozenset({"jax"})}) == []


def test_a_new_adapter_folder_is_held_to_the_imports_of_its_environment(tmp_path: Path) -> None:
    folder = tmp_path / "adapters" / "jax"
    folder.mkdir(parents=True)
    (folder / "adapter.py").write_text("import jax, flax\n")
    (folder / "environment.toml").write_text('imports = ["jax"]\n')
    own = own_modules(tmp_path)
    assert own["jax"] == {"jax"}
    assert violations((folder / "adapter.py").read_text(), Path("adapters/jax/adapter.py"), own) == [
        "adapters/jax/adapter.py:1: imports flax"
    ]


def test_mypys_settings_name_no_framework_so_that_another_needs_no_line_there() -> None:
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    named = {module.split(".")[0] for override in overrides for module in override["module"]}
    assert not named & set().union(*own_modules(ROOT).values())


def test_spec_trial_and_study_load_where_numpy_is_absent() -> None:
    modules = (
        "workloads.spec, workloads.study, workloads.records.job, workloads.records.result, workloads.records.events"
    )
    code = f"import sys; sys.modules['numpy'] = None; import {modules}"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
