"""Import a network from model code: its framework's own interpreter traces it, before anything is measured."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner import owned
from runner.environments import definition, venv
from runner.environments.definition import EnvironmentUnavailable
from runner.environments.interpreter import BadInterpreter, check
from runner.launch import Local
from runner.machine import description
from runner.machine.allotment import UnclearGpus, list_visible_gpus
from runner.machine.description import Gpu
from runner.project import Project
from runner.request import own_code
from runner.request.parser import BadInput, need_known
from workloads.datasets import Dataset
from workloads.networks import NAME, WORKLOADS, NetworkError, accept, find_imported
from workloads.records.build import column_of
from workloads.records.job import DRAWN, OWN, Initial, Placement
from workloads.records.network import OwnCode
from workloads.source.files import CODE, ONNX, is_source, make_workload_name
from workloads.source.graph import ImportRefused
from workloads.source.imported import Imported
from workloads.source.traced import read_traced, write_request
from workloads.study import Study

TRACED_S = 600.0  # the code may draw or load hundreds of millions of weights
USUAL_FUNCTION = "make_model"
# Endings of files in which frameworks keep trained weights; another .h5 of Keras is a whole model.
WEIGHTS_OF = {".pt": "pytorch", ".pth": "pytorch", ".weights.h5": "tensorflow", ".params": "mxnet"}
ABSENT, NEIGHBOURS = ("ModuleNotFoundError", "FileNotFoundError"), "; a run copies that file alone, without others"
NOT_COMPARED = "it is not proven to be the model that it was imported from"
ONNX_NOT_COMPARED = (
    "is not compared with the model it was exported from, neither forward nor gradients nor updates: "
    "an .onnx file has no framework; to prove it, name the .keras file or the PyTorch code itself"
)
CHANNELS = (1, 3, 4)  # of pictures


def _on_one_thread() -> Placement:
    return Placement("cpu", 1, description.list_deciding_variables())


def choose_device_kind(gpus: Sequence[Gpu]) -> str:
    """Return the kind of environment that traces a model: "cpu" where no visible GPU can be measured."""
    try:
        return "cuda" if any(not gpu.mig for gpu in list_visible_gpus(gpus).gpus) else "cpu"
    except UnclearGpus:  # a run says so when it chooses its device
        return "cpu"


def is_code(workload: str) -> bool:
    """True if a workload is named as a function of a Python file."""
    return CODE.fullmatch(workload) is not None


@dataclass
class Importer:
    """Imports each model once."""

    project: Project
    pythons: Mapping[str, Path]  # builds with an interpreter of the user's
    isolation: str
    device_kind: str  # of the environment that traces, where the study's device is not the CPU
    alone: bool = True  # the file gets no neighbours, as in the worker that compares it with its import
    known: dict[tuple[object, ...], Imported] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)  # workloads of which it was said how they are compared

    def import_model(self, study: Study, dataset: Dataset) -> Imported:
        """Return the network of the study's model code, for the classes of the data set. Raises BadInput."""
        option = f"--workload {study.workload}"
        match = CODE.fullmatch(study.workload)
        assert match is not None
        path, function = Path(os.path.expanduser(match["file"])), match["function"]
        text = own_code.read_code(path, function, option)
        framework = study.from_framework or own_code.find_framework(path)
        if framework != "pytorch":
            raise BadInput(f"{option}: name the code's framework: --from pytorch; give a Keras model as a .keras file")
        shape = study.input_shape or dataset.image_shape
        if len(shape) != 3:
            raise BadInput(f"{option}: give the size of its images: --input-shape ROWS COLUMNS CHANNELS")
        if self.isolation == "docker":
            size = " ".join(map(str, shape))
            words = f"--from {framework} --input-shape {size} --classes {dataset.classes} --out my_net.json"
            raise BadInput(
                f"{option}: an import runs the code outside of a container, which --isolation docker rules out: first "
                f"python -m workloads import {study.workload} {words}, then give --workload my_net.json"
                + own_code.offer(framework, path).replace("FUNCTION", function)
            )
        key = path.resolve(), function, framework, dataset.classes, shape, study.seed
        if key not in self.known:
            digest = hashlib.sha256(text).hexdigest()[:12]
            code = OwnCode(framework, path.name, function, digest, dataset.classes, shape)
            self.known[key] = self._trace(path, code, text, study, option)
        return self.known[key]

    def _trace(self, path: Path, code: OwnCode, text: bytes, study: Study, option: str) -> Imported:
        """Start the tracing program and read what it wrote. Raises BadInput."""
        owner = tempfile.TemporaryDirectory(prefix="batchwise-import-")  # deleted with the request
        folder = Path(owner.name)
        file = path
        if self.alone:
            file = folder / "code" / path.name
            file.parent.mkdir()
            file.write_bytes(text)
        write_request(folder, file, code, study.seed)
        self._run(self._launcher(code.framework, study, option), code.framework, folder, option)
        offer = own_code.offer(code.framework, path).replace("FUNCTION", code.function)
        try:
            imported = read_traced(folder, code, text, name_workload(path, code.function))
            origin = imported.origin and replace(imported.origin, owner=owner)
            return accept(replace(imported, origin=origin), path)
        except ImportRefused as error:
            hint = NEIGHBOURS if self.alone and any(name in str(error) for name in ABSENT) else ""
            hint += _describe_order(study.input_shape)
            raise BadInput(f"{option}: {error}{hint}{offer}, which is compared with nothing") from error
        except NetworkError as error:
            raise BadInput(str(error)) from error
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise BadInput(f"{option}: the output of its trace cannot be read: {error}") from error

    def _launcher(self, framework: str, study: Study, option: str) -> Local:
        """Return how the framework's interpreter is started. Its environment is made if it is not. Raises BadInput."""
        kind = "cpu" if study.device == "cpu" else self.device_kind
        named = sorted(build for build in self.pythons if column_of(build).framework == framework)
        try:
            environment = definition.read(self.project, framework, kind)
            if named:
                return check(self.pythons[named[0]], environment, _on_one_thread()).launcher()
            if self.isolation == "here":
                variables = definition.build_worker_variables(environment, definition.SITE_PACKAGES)
                return Local(sys.executable, variables, self.project)
            venv.make(environment, lambda line: print(f"runner: {line}", file=sys.stderr))
        except (BadInterpreter, EnvironmentUnavailable) as error:
            raise BadInput(f"{option}: {framework} cannot import it: {error}") from error
        return Local(str(environment.interpreter), definition.build_worker_variables(environment), self.project)

    def _run(self, local: Local, framework: str, folder: Path, option: str) -> None:
        """Run the tracing program on this folder. Raises BadInput."""
        try:
            done = owned.run(
                [local.interpreter, "-m", f"adapters.{framework}.tracing", str(folder)],
                TRACED_S,
                cwd=self.project.root,
                env=local.for_model_code.environment(_on_one_thread()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise BadInput(f"{option}: {local.interpreter} cannot be started: {error.strerror or error}") from error
        except subprocess.TimeoutExpired as error:
            raise BadInput(f"{option}: was not traced within {TRACED_S:.0f} s") from error
        if done.returncode:
            lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
            raise BadInput(f"{option}: could not be traced: {lines[-1] if lines else f'exit code {done.returncode}'}")


def _describe_order(shape: tuple[int, ...] | None) -> str:
    """Return a hint where a given shape looks like (channels, rows, columns), PyTorch's order; "" elsewhere."""
    if shape is None or shape[0] not in CHANNELS or shape[2] in CHANNELS:
        return ""
    channels, *size = shape
    return f"; --input-shape is ROWS COLUMNS CHANNELS: is it {' '.join(map(str, (*size, channels)))}?"


def find_workload(study: Study, dataset: Dataset, importer: Importer) -> Imported:
    """Return the study's workload, with what its source brings. Raises BadInput."""
    if is_code(study.workload):
        return importer.import_model(study, dataset)
    path, weights = Path(study.workload), Path(study.workload.partition(":")[0])
    for ending, framework in WEIGHTS_OF.items():
        if weights.name.endswith(ending):
            raise BadInput(f"--workload {weights}: holds weights, not a network{_offer_import(framework)}")
    for key, option in (("from_framework", "--from"), ("input_shape", "--input-shape")):
        if getattr(study, key) is not None:
            names = own_code.list_defined(path) if path.suffix == ".py" else []
            given = f"; {path} defines {', '.join(names)}" if names else "; leave it out"
            raise BadInput(
                f"{option}: is for a model in code, --workload {path if names else 'FILE.py'}:FUNCTION{given}"
            )
    if path.suffix != ".py" and not is_source(study.workload):
        need_known("workload", study.workload, WORKLOADS)
    try:
        imported = find_imported(study.workload)
    except NetworkError as error:
        imports = own_code.find_framework(path)
        raise BadInput(f"{error}{_offer_import(imports, path) if imports else ''}") from error
    if study.workload not in importer.told and (said := _describe_comparison(imported, path, importer.project)):
        importer.told.add(study.workload)
        print(f"runner: {said}", file=sys.stderr)
    return imported


def _describe_comparison(imported: Imported, path: Path, project: Project) -> str:
    """Return what must be said first: a network is not compared with its source, or code that its file names is run."""
    origin = imported.origin
    if origin is not None and origin.gets_weights:
        label = definition.read_label(project, origin.source.code.framework)
        return f"{origin.path} is run in {label}'s worker, to compare the network with it"
    if origin is None and imported.places:
        said = ONNX_NOT_COMPARED if path.suffix.lower() == ONNX else f"{NOT_COMPARED}: {imported.unproven}"
        return f"--workload {path}: {said}"
    return ""


def _offer_import(framework: str, path: Path = Path("FILE.py")) -> str:
    """Return a hint on how model code of a framework is trained: imported, or as it is."""
    if framework != "pytorch":
        return own_code.offer(framework, path)
    return f"{own_code.offer(framework, path)}; --workload {path}:FUNCTION --from pytorch imports it for all frameworks"


def choose_initial(study: Study, imported: Imported) -> Initial:
    """Return where the first weights come from. Raises BadInput."""
    if study.initial == OWN and imported.weights is None:
        raise BadInput(f"--initial {OWN}: workload {study.workload} has no weights of its own: leave it out")
    return study.initial or (OWN if imported.weights is not None else DRAWN)


def name_workload(path: Path, function: str) -> str:
    """Return the name of the network that a function of a file makes."""
    words = path.stem if function == USUAL_FUNCTION else f"{path.stem}-{function}"
    name = make_workload_name(words)[:30].rstrip("-.")
    return name if NAME.fullmatch(name) else "imported"
