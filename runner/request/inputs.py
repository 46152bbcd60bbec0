"""Fetch what a request needs, and write what every worker reads, once: data, batch order, initial weights.

A study's schedule and augmentation are computed here, too: learning rates by step, flips and crops by epoch.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from runner.input_files import INPUTS, link, place_file, write, write_array
from runner.machine import locks
from runner.request import data_sets, own_code
from runner.request.parser import BadInput
from workloads import augmentation, datasets, schedules, weights
from workloads.datasets import DataError, DataFile, Dataset, file_digest, verify
from workloads.layers import Shape
from workloads.records import network
from workloads.records.job import ANEW, AUGMENTATION, DRAWN, OWN, RATES, InputFile
from workloads.records.source_map import SOURCE, SOURCE_CODE, SOURCE_WEIGHTS
from workloads.study import Study
from workloads.unpacking import extract_all

if TYPE_CHECKING:
    import requests

    from runner.request.cli import Request


def write_data(request: Request, console: Console) -> dict[str, InputFile]:
    """Write the data set and the network into the results folder, the same for every repeat. Raises datasets.DataError.

    Files are downloaded only if no data folder was given.
    """
    study, dataset = request.study, request.dataset
    (request.results / INPUTS).mkdir(parents=True, exist_ok=True)
    if request.arrays is not None:
        return _what_is_trained(request) | {
            name: link(request.results, f"{study.dataset}-{name.replace('_', '-')}", file.path, file.sha256)
            for name, file in request.arrays.items()
        }
    folder = request.data_dir or request.project.data
    if request.data_dir is None:
        fetch(dataset, folder, console)
    else:
        data_sets.need_given_files(folder, dataset)
    train, test = datasets.load(dataset, folder, request.workload.input_shape)
    return _what_is_trained(request) | {
        f"{split}_{kind}": write_array(request.results, f"{study.dataset}-{split}-{kind}", array)
        for split, arrays in (("train", train), ("test", test))
        for kind, array in (("images", arrays.images), ("labels", arrays.labels))
    }


def write_all_data(request: Request, console: Console) -> dict[str, dict[str, InputFile]]:
    """Return {series: what `write_data` writes}. Data shared by several series are read once.

    Raises datasets.DataError.
    """
    written: dict[Any, dict[str, InputFile]] = {}
    for part in request.parts.values():
        if (key := _data_key(part)) not in written:
            written[key] = write_data(part, console)
    return {name: written[_data_key(part)] for name, part in request.parts.items()}


def _data_key(request: Request) -> Any:
    """Return what decides which files `write_data` writes."""
    return request.study.images, request.source, request.workload, request.study.initial


def _what_is_trained(request: Request) -> dict[str, InputFile]:
    """Write the network, or the files of custom code."""
    if request.models:
        return {
            own_code.make_input_name(framework): write(request.results, model.workload, ".py", memoryview(model.text))
            for framework, model in request.models.items()
        }
    text = network.to_text(request.workload).encode()
    written = {"network": write(request.results, f"{request.workload.name}-network", ".json", memoryview(text))}
    return written | _write_origin(request)


def _write_origin(request: Request) -> dict[str, InputFile]:
    """Write the user's model that an imported network comes from; nothing for any other network."""
    origin = request.imported.origin if request.imported else None
    if origin is None:
        return {}
    name, results = request.workload.name, request.results
    source = replace(origin.source, initial=DRAWN if origin.gets_weights else request.study.task.initial)
    files = {
        SOURCE: write(results, f"{name}-source", ".json", memoryview(source.to_text().encode())),
        SOURCE_CODE: write(results, name, Path(origin.source.code.file).suffix, memoryview(origin.code)),
    }
    tensors = origin.tensors
    if source.initial == OWN and tensors is not None:
        sha256 = file_digest(tensors, "sha256")
        stem = f"{name}-source-{sha256[:12]}"
        files[SOURCE_WEIGHTS] = place_file(results, f"{stem}.npz", sha256, lambda path: shutil.copyfile(tensors, path))
    return files


def write_all_repeats(
    request: Request, data: dict[str, dict[str, InputFile]], repeats: range
) -> dict[str, dict[int, dict[str, InputFile]]]:
    """Return {series: what `write_repeats` writes}, from what `write_all_data` wrote."""
    return {name: write_repeats(part, data[name], repeats) for name, part in request.parts.items()}


def write_repeats(request: Request, data: dict[str, InputFile], repeats: range) -> dict[int, dict[str, InputFile]]:
    """Return {repeat: its inputs}. Repeat r draws weights, order and augmentation with seed + r."""
    study, results = request.study, request.results
    data = data | _write_rates(results, compute_rates(study, request.dataset.train_count))
    written = {}
    own = write_own_weights(request) if repeats else {}
    for repeat in repeats:
        seed = study.seed + repeat
        order = datasets.batch_order(request.dataset.train_count, study.epochs, seed)
        draws = draw_augmentation(study, order, request.workload.input_shape, seed)
        written[repeat] = {
            **data,
            **{name: write_array(results, f"{study.dataset}-{name}-seed{seed}", each) for name, each in draws.items()},
            "order": write_array(results, f"{study.dataset}-order-seed{seed}", order),
        }
        written[repeat] |= own
        if not request.models and not own:  # custom code draws its own
            archive = io.BytesIO()
            weights.save(archive, weights.draw(request.workload, seed))
            written[repeat]["weights"] = write(results, f"{study.workload}-seed{seed}", ".npz", archive.getbuffer())
    return written


def write_step_rates(request: Request, batch_size: int) -> dict[str, InputFile]:
    """Write the learning rates of a trial of steps alone at this batch size; nothing where all steps have one rate.

    Steps alone need not come to a warm-up's end. Where a training at this size would not, they have the highest rate.
    """
    study = request.study.changed(batch_sizes=(batch_size,))
    try:
        rates = compute_rates(study, request.dataset.train_count)
    except BadInput:
        rule = study.optimizer_spec.at(study.accumulate * study.devices * batch_size)
        rates = {f"{RATES}/{batch_size}": np.array([rule.learning_rate], np.float32)}
    return _write_rates(request.results, rates)


def _write_rates(results: Path, rates: dict[str, NDArray[np.float32]]) -> dict[str, InputFile]:
    return {name: write_array(results, name.replace("/", "-b"), array) for name, array in rates.items()}


def write_own_weights(request: Request) -> dict[str, InputFile]:
    """Write the weights that an imported network brings; nothing if they are drawn."""
    weights_of_source = request.imported.weights if request.imported else None
    if weights_of_source is None or request.models or request.study.task.initial != OWN:
        return {}
    archive = io.BytesIO()
    weights.save(archive, weights_of_source)
    return {"weights": write(request.results, f"{request.study.workload}-source-weights", ".npz", archive.getbuffer())}


def compute_rates(study: Study, images: int) -> dict[str, NDArray[np.float32]]:
    """Return {"rates/BATCH_SIZE": (steps,)} for this many training images; empty where all steps have one rate.

    Raises BadInput.
    """
    if not study.optimizer_spec.changes_rate:
        return {}
    computed = {}
    for batch_size in study.batch_sizes:
        of_update = study.accumulate * study.devices * batch_size
        steps = study.epochs * schedules.count_steps(images, of_update, study.last_batch)
        try:
            computed[f"{RATES}/{batch_size}"] = schedules.compute_rates(study.optimizer_spec.at(of_update), steps)
        except ValueError as error:
            raise BadInput(f"--warm-up {study.warm_up:g}: at batch size {batch_size} {error}") from error
    return computed


def draw_augmentation(study: Study, order: NDArray[np.int32], shape: Shape, seed: int) -> dict[str, NDArray[Any]]:
    """Return {"augmentation": (epochs + 1, n, 3)} for images of `shape` (h, w, c) in an order of (epochs + 1, n).

    Empty where no image changes from epoch to epoch.
    """
    if study.augment not in ANEW:
        return {}
    epochs, count = order.shape
    return {AUGMENTATION: augmentation.draw(epochs, count, shape, seed)}


def select_inputs(inputs: dict[str, InputFile], batch_size: int) -> dict[str, InputFile]:
    """Return the inputs of a trial at this batch size from a repeat's inputs; its rates are named RATES."""
    shared = {name: file for name, file in inputs.items() if not name.startswith(f"{RATES}/")}
    own = inputs.get(f"{RATES}/{batch_size}")
    return shared | ({RATES: own} if own else {})


TIMEOUT_S = 60
CHUNK_BYTES = 1 << 18


def fetch(dataset: Dataset, folder: Path, console: Console) -> None:
    """Download the missing files of the data set. Raises DataError, LockRefused; what was fetched is kept."""
    if all(is_whole(folder, file) for file in dataset.files):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        advice = f"name a folder that has the data set, with --data-dir or {data_sets.DATA_VARIABLE}"
        raise DataError(f"{folder}: {error.strerror}: nothing can be downloaded there; {advice}") from error
    what = f"data set {dataset.name}: another run downloads it"
    with locks.wait_for_file(folder / ".lock", what, "give --data-dir"):
        for file in dataset.download:
            path = folder / file.path
            if not is_whole(folder, file):
                download(f"{dataset.base_url}{path.name}", path, file, console)
            if path.name.endswith(".tar.gz"):
                extract(path, folder)


def is_whole(folder: Path, file: DataFile) -> bool:
    """True if the file exists with its published MD5."""
    try:
        verify(folder / file.path, file.md5)
    except DataError:
        return False
    return True


def download(url: str, path: Path, file: DataFile, console: Console) -> None:
    """Download to PATH.part, continuing where it ends; rename it when its md5 is correct. Raises DataError."""
    import requests  # few commands download, and its imports take a fifth of a command's

    part = path.with_name(path.name + ".part")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        received = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={received}-"} if received else {}
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_S) as response:
            if response.status_code != 416:  # 416: nothing after what is already there
                response.raise_for_status()
                _receive(response, part, received if response.status_code == 206 else 0, console, path.name)
    except (requests.RequestException, OSError) as error:
        raise DataError(
            f"{url} could not be fetched ({type(error).__name__}: {error}); run again to continue, or give --data-dir"
        ) from error
    try:
        verify(part, file.md5)
    except DataError:
        part.unlink()
        raise
    part.replace(path)


def _receive(response: requests.Response, part: Path, received: int, console: Console, name: str) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    length = response.headers.get("Content-Length")
    total = received + int(length) if length else None
    with part.open("ab" if received else "wb") as out, Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=total, completed=received)
        for chunk in response.iter_content(CHUNK_BYTES):
            out.write(chunk)
            progress.advance(task, len(chunk))


def extract(archive: Path, folder: Path) -> None:
    """Unpack plain files into the folder. Raises DataError, also for any other member."""
    try:
        with tarfile.open(archive) as tar:
            extract_all(tar, folder)
    except (tarfile.TarError, OSError) as error:
        raise DataError(f"{archive} could not be unpacked: {error}") from error
