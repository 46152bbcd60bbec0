"""What every worker reads: data, batch order and initial weights, drawn and written once, with their checksums."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from rich.console import Console

from runner.download import fetch
from workloads import datasets, weights
from workloads.catalogue import WORKLOADS
from workloads.study import Study
from workloads.trial import InputFile

INPUTS = "inputs"


def load_splits(study: Study, data_dir: Path | None, default_dir: Path, console: Console) -> tuple:
    """(train, test); files are downloaded only where no data folder was named. Raises datasets.DataError."""
    dataset = datasets.DATASETS[study.dataset]
    if data_dir is None:
        fetch(dataset, default_dir, console)
    return datasets.load(dataset, data_dir or default_dir, WORKLOADS[study.workload].input_shape)


def write_inputs(study: Study, splits: tuple, results: Path) -> list[dict[str, InputFile]]:
    """The inputs of each repeat. Repeat r draws weights and order with seed + r; the data is shared."""
    folder = results / INPUTS
    folder.mkdir(parents=True, exist_ok=True)
    train, test = splits
    shared = {}
    for name, array in (
        ("train_images", train.images),
        ("train_labels", train.labels),
        ("test_images", test.images),
        ("test_labels", test.labels),
    ):
        shared[name] = _write(results, f"{study.dataset}-{name}", ".npy", lambda file, a=array: np.save(file, a))
    repeats = []
    for repeat in range(study.repeats):
        seed = study.seed + repeat
        order = datasets.batch_order(len(train.labels), study.epochs, seed)
        drawn = weights.draw(WORKLOADS[study.workload], seed)
        repeats.append(
            {
                **shared,
                "order": _write(results, f"order-seed{seed}", ".npy", lambda file, a=order: np.save(file, a)),
                "weights": _write(results, f"{study.workload}-seed{seed}", ".npz", lambda file, w=drawn: weights.save(file, w)),
            }
        )
    return repeats


def _write(results: Path, stem: str, suffix: str, save: Callable[[BinaryIO], None]) -> InputFile:
    """Named by its content, so that nothing that an earlier trial used is ever overwritten."""
    buffer = io.BytesIO()
    save(buffer)
    content = buffer.getbuffer()
    sha256 = hashlib.sha256(content).hexdigest()
    path = results / INPUTS / f"{stem}-{sha256[:12]}{suffix}"
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(content)
        temporary.replace(path)
    return InputFile(str(path.relative_to(results)), sha256)
