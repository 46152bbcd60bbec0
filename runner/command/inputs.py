"""What every worker reads: data, batch order and initial weights, drawn and written once, with their checksums."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from runner.command.download import fetch
from workloads import datasets, weights
from workloads.catalogue import WORKLOADS
from workloads.datasets import Split
from workloads.records.job import InputFile
from workloads.study import Study

INPUTS = "inputs"


def load_splits(study: Study, data_dir: Path | None, default_dir: Path, console: Console) -> tuple[Split, Split]:
    """(train, test); files are downloaded only where no data folder was named. Raises datasets.DataError."""
    dataset = datasets.DATASETS[study.dataset]
    if data_dir is None:
        fetch(dataset, default_dir, console)
    return datasets.load(dataset, data_dir or default_dir, WORKLOADS[study.workload].input_shape)


def write_data(study: Study, splits: tuple[Split, Split], results: Path) -> dict[str, InputFile]:
    """The data: the same for every repeat."""
    (results / INPUTS).mkdir(parents=True, exist_ok=True)
    train, test = splits
    return {
        "train_images": write_array(results, f"{study.dataset}-train-images", train.images),
        "train_labels": write_array(results, f"{study.dataset}-train-labels", train.labels),
        "test_images": write_array(results, f"{study.dataset}-test-images", test.images),
        "test_labels": write_array(results, f"{study.dataset}-test-labels", test.labels),
    }


def write_repeats(
    study: Study, data: dict[str, InputFile], repeats: range, results: Path
) -> dict[int, dict[str, InputFile]]:
    """{repeat: its inputs}. Repeat r draws weights and order with seed + r."""
    written = {}
    for repeat in repeats:
        seed = study.seed + repeat
        order = datasets.batch_order(datasets.DATASETS[study.dataset].train_count, study.epochs, seed)
        packed = io.BytesIO()
        weights.save(packed, weights.draw(WORKLOADS[study.workload], seed))
        written[repeat] = {
            **data,
            "order": write_array(results, f"{study.dataset}-order-seed{seed}", order),
            "weights": write(results, f"{study.workload}-seed{seed}", ".npz", packed.getbuffer()),
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
