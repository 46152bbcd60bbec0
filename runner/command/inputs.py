"""What every worker reads: data, batch order and initial weights, drawn and written once, with their checksums."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from runner.command import training_inputs
from runner.command.cli import Request
from runner.command.download import fetch
from workloads import datasets, weights
from workloads.records import network
from workloads.records.job import InputFile

INPUTS = "inputs"


def write_data(request: Request, console: Console) -> dict[str, InputFile]:
    """The data set and the network as files in the results folder, the same for every repeat; downloaded only where no
    folder of it was named. Raises datasets.DataError.
    """
    study, dataset = request.study, datasets.DATASETS[request.study.dataset]
    folder = request.data_dir or request.project.data
    if request.data_dir is None:
        fetch(dataset, folder, console)
    train, test = datasets.load(dataset, folder, request.workload.input_shape)
    (request.results / INPUTS).mkdir(parents=True, exist_ok=True)
    text = network.to_text(request.workload).encode()
    return {"network": write(request.results, f"{study.workload}-network", ".json", memoryview(text))} | {
        f"{split}_{kind}": write_array(request.results, f"{study.dataset}-{split}-{kind}", array)
        for split, arrays in (("train", train), ("test", test))
        for kind, array in (("images", arrays.images), ("labels", arrays.labels))
    }


def write_repeats(request: Request, data: dict[str, InputFile], repeats: range) -> dict[int, dict[str, InputFile]]:
    """{repeat: its inputs}. Repeat r draws weights, order and augmentation with seed + r."""
    study, results = request.study, request.results
    rates = training_inputs.rates(study, datasets.DATASETS[study.dataset].train_count)
    data = data | {name: write_array(results, name.replace("/", "-b"), array) for name, array in rates.items()}
    written = {}
    for repeat in repeats:
        seed = study.seed + repeat
        order = datasets.batch_order(datasets.DATASETS[study.dataset].train_count, study.epochs, seed)
        draws = training_inputs.draws(study, order, request.workload.input_shape, seed)
        archive = io.BytesIO()
        weights.save(archive, weights.draw(request.workload, seed))
        written[repeat] = {
            **data,
            **{name: write_array(results, f"{study.dataset}-{name}-seed{seed}", each) for name, each in draws.items()},
            "order": write_array(results, f"{study.dataset}-order-seed{seed}", order),
            "weights": write(results, f"{study.workload}-seed{seed}", ".npz", archive.getbuffer()),
        }
    return written


def write_array(results: Path, stem: str, array: NDArray[Any]) -> InputFile:
    """As .npy, under a name with its digest; what is there already is left alone."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return write(results, stem, ".npy", buffer.getbuffer())


def write(results: Path, stem: str, suffix: str, content: memoryview) -> InputFile:
    """Named by its content, so that nothing that an earlier trial used is ever overwritten."""
    sha256 = hashlib.sha256(content).hexdigest()
    path = results / INPUTS / f"{stem}-{sha256[:12]}{suffix}"
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(content)
        temporary.replace(path)
    return InputFile(str(path.relative_to(results)), sha256)
