"""Read the worker's file for the referee of a trial's end: questions, answers and the arrays that they name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from adapters.numpy.passes import Array, Parameters
from workloads import weights
from workloads.augmentation import Augmented, Cost
from workloads.datasets import Images, Labels
from workloads.records import network
from workloads.records.end_evidence import END_FILE, draw_evaluated, evaluated_images
from workloads.records.files import JOB_FILE
from workloads.records.job import AUGMENTATION, RATES, Job, TrialSpec
from workloads.spec import OptimizerSpec, Workload


@dataclass(frozen=True)
class Asked:
    """The arrays that the worker saved, and the split that its batches index."""

    spec: TrialSpec
    workload: Workload
    saved: dict[str, Array]
    images: Images
    labels: Labels
    test_images: Images  # the images whose logits are recomputed
    rule: OptimizerSpec  # at the current rate

    def weights(self, number: int) -> Parameters:
        """Weights after this number of steps of the probe; empty if they were not saved."""
        prefix = f"weights/{number}/"
        return {key.removeprefix(prefix): array for key, array in self.saved.items() if key.startswith(prefix)}

    def batch(self, number: int) -> Array:
        """Indices (batch,) into the training split, for this step of the probe."""
        return self.saved[f"batch/{number}"][0]

    @property
    def steps(self) -> int:
        """Number of steps that the probe made."""
        return sum(key.startswith("batch/") for key in self.saved)

    @property
    def rules(self) -> list[OptimizerSpec]:
        """The rule at each step's rate; in the middle of a trial the rates may differ."""
        if "rates" not in self.saved:
            return [self.rule] * self.steps
        return [replace(self.rule, learning_rate=float(rate)) for rate in self.saved["rates"]]


def read(folder: Path, file: str = END_FILE, every: Array | None = None) -> Asked:
    """Read this file and job.json of the folder, with the arrays that they name. `every` is the logits of a whole
    evaluation: some images are drawn from it, which depend on all of it. Raises OSError, KeyError.
    """
    job = Job.from_json(json.loads((folder / JOB_FILE).read_text(encoding="utf-8")))
    spec, root = job.trial, folder / job.results
    workload, saved = network.read(root / spec.inputs["network"].path), weights.load(folder / file)
    names = ("train_images", "train_labels", "test_images")
    images, labels, test_images = (np.load(root / spec.inputs[name].path, mmap_mode="r") for name in names)
    rule = spec.task.optimizer
    if RATES in spec.inputs:
        rule = replace(rule, learning_rate=float(np.load(root / spec.inputs[RATES].path, mmap_mode="r")[-1]))
    if AUGMENTATION in spec.inputs:
        draws = np.load(root / spec.inputs[AUGMENTATION].path, mmap_mode="r")
        images = cast(Images, Augmented(images, draws[int(saved.get("epoch", np.array(-1)))], Cost()))
    if every is not None:
        generator = np.random.default_rng(int.from_bytes(hashlib.sha256(every.tobytes()).digest()))
        drawn = draw_evaluated(generator, len(every), spec.cell.batch_size, evaluated_images(workload))
        saved |= cast(Parameters, {"evaluated": drawn, "logits": every[drawn], "steps": np.array(0)})
    evaluated = saved.get("evaluated", slice(evaluated_images(workload)))  # older files: the first ones
    return Asked(spec, workload, saved, images, labels, test_images[evaluated], rule)
