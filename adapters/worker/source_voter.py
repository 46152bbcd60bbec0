"""The module that a network was imported from, probed like a framework's version of that network."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from adapters.base import Adapter, Facts, Floats, Order, Probe, SourceVerbs, Unsupported, take_snapshot
from adapters.worker.prepare import BuildArguments, read_input
from workloads import weights as initial_weights
from workloads.datasets import Images, Labels
from workloads.records import network
from workloads.records.evidence import fingerprint
from workloads.records.job import Job
from workloads.records.source_map import DRAWN, SOURCE, SOURCE_CODE, SOURCE_WEIGHTS, Arrays, SourceFacts, SourceMap
from workloads.spec import OptimizerSpec, Workload
from workloads.weights import Weights, outputs_channels_last


def open_voter(adapter: Adapter, job: Job, folder: Path) -> tuple[SourceVoter, BuildArguments]:
    """Return the source as an adapter, and the arguments of the imported network's `build`.

    Raises Unsupported if networks are not imported from this framework, and what the user's file raises.
    """
    spec, root = job.trial, (folder / job.results).resolve()
    framework = spec.cell.column.framework
    if importlib.util.find_spec(f"adapters.{framework}.source") is None:
        raise Unsupported(f"no networks are imported from {framework} (adapters/{framework}/source.py)")
    paths = {name: read_input(root, file) for name, file in spec.inputs.items() if "label" not in name}
    source = SourceMap.read(paths[SOURCE])
    verbs = cast(SourceVerbs, importlib.import_module(f"adapters.{framework}.source").make_source(adapter))
    own = dict(np.load(paths[SOURCE_WEIGHTS], allow_pickle=False)) if SOURCE_WEIGHTS in paths else {}
    voter = SourceVoter(adapter, verbs, source, paths[SOURCE_CODE], own)
    weights = initial_weights.load(paths["weights"])
    return voter, (network.read(paths["network"]), spec.task.optimizer, weights, spec.draw.seed)


@dataclass
class SourceVoter(Adapter):
    """An adapter whose model is the source's own module. Its answers have our names and layouts.

    `build` makes the module anew. If the workload draws no masks, those of the module are stopped, too.
    """

    adapter: Adapter
    verbs: SourceVerbs
    source: SourceMap
    path: Path
    own: Arrays = field(default_factory=dict)  # the source's tensors, if the import wrote them
    workload: Workload = field(init=False)

    def open(self, device: str, threads: int, profile: str, precision: str, feed: str, allocator: str) -> Facts:
        return self.adapter.open(device, threads, profile, precision, feed, allocator)

    def load(self, images: Images, labels: Labels) -> None:
        self.adapter.load(images, labels)

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Weights, seed: int) -> None:
        self.workload = workload
        self.adapter.build_model(self.make_model, self.source.code, optimizer, seed)
        if not workload.draws:
            self.verbs.stop_masks()
        tensors = self.source.put(weights, self.verbs.tensors()) if self.source.initial == DRAWN else self.own
        if tensors:
            self.verbs.set_tensors(tensors)
        names = {each.key: each.source_name for each in self.source.parameters}
        shapes = {layer.name: shape for layer, shape in workload.walk()}
        variances = [key for key in workload.statistic_shapes() if key.endswith("/running_variance") and key in names]
        pixels = {names[key]: math.prod(shapes[key.split("/")[0]][:-1]) for key in variances}
        self.verbs.keep_biased_variance(pixels)

    def snapshot(self) -> Callable[[], None] | None:
        if self.workload.draws or (restore := take_snapshot(self.adapter)) is None:
            return None
        tensors = self.verbs.tensors()

        def restore_all() -> None:
            restore()
            self.verbs.set_tensors(tensors)

        return restore_all

    @cached_property
    def make_model(self) -> Callable[[int], Any]:
        """Function that makes the module. The user's file is executed once: it may register classes."""
        return self.verbs.maker(self.path, self.source.code.function)

    def facts(self, task: BuildArguments, images: Images) -> SourceFacts:
        """Return what the module says about itself, as the user's code makes it.

        It is asked before `build`: the user's function may return the same module at each call.
        """
        workload, _, _, seed = task
        self.adapter.build_model(self.make_model, self.source.code, OptimizerSpec.named("sgd"), seed)
        masks, parameters = self.verbs.list_masks(images), self.verbs.count_parameters()
        if self.source.initial == DRAWN:
            return SourceFacts(parameters, masks, {})
        weights = self.source.take(self.own or self.verbs.tensors(), workload.weight_shapes())
        return SourceFacts(parameters, masks, {key: fingerprint(array) for key, array in weights.items()})

    def probe(self, images: Images, labels: Labels) -> Probe:
        loss, gradients, outputs = self.verbs.differentiate(images, labels, list(self.places.values()))
        return Probe(loss, self._outputs(outputs), self.source.take(gradients, self.workload.parameter_shapes()))

    def _outputs(self, outputs: dict[str, list[Floats]]) -> dict[str, Floats]:
        """Return {layer: output} in our layout, of the layers whose module gives an array of their size."""
        calls: Counter[str] = Counter()
        native: dict[str, Floats] = {}
        for layer, place in self.places.items():
            if len(outputs.get(place, ())) > calls[place]:
                native[layer] = outputs[place][calls[place]]
            calls[place] += 1
        return arrange_outputs(self.workload, native, self.verbs.channels_first)

    @property
    def places(self) -> dict[str, str]:
        """{layer: the source's module}, in the order of computation."""
        found, taken = dict(self.source.places), set(self.source.places.values())
        for layer, _ in self.workload.walk():
            place = self.source.name_place(layer.name)
            if place and place not in taken:  # or it computes a layer after this one, too: an activation
                found[layer.name] = place
        return found

    def train(self, order: Order, rates: Floats | None = None, part: int | None = None) -> Any:
        return self.adapter.train(order, rates, part)

    def read(self, handle: Any) -> Floats:
        return self.adapter.read(handle)

    def predict(self, images: Images) -> Floats:
        return self.adapter.predict(images)

    def weights(self) -> Weights:
        return self.source.take(self.verbs.tensors(), self.workload.weight_shapes())

    def synchronize(self) -> None:
        self.adapter.synchronize()

    def out_of_memory(self, error: BaseException) -> bool:
        return self.adapter.out_of_memory(error)


def arrange_outputs(workload: Workload, native: dict[str, Floats], channels_first: bool) -> dict[str, Floats]:
    """Return outputs in our layout and order, of modules that may mix channels first and last.

    One whose layout its shape does not decide is left out. One of another size stays as it is: it differs.
    """
    arranged: dict[str, Floats] = {}
    for layer, entering in workload.walk():
        if layer.name not in native:
            continue
        shape, array = layer.output_shape(entering), native[layer.name]
        as_first = (*shape[-1:], *shape[:-1])
        if channels_first and len(shape) == 3 and array.shape[1:] == as_first:
            if as_first != shape:
                arranged[layer.name] = np.ascontiguousarray(array.transpose(0, 2, 3, 1))
        elif array.shape[1:] == shape:
            named = {layer.name: array}
            flat = channels_first and len(shape) == 1
            arranged |= outputs_channels_last(workload, named) if flat else named
        elif len(shape) == 1 and array.ndim == 4 and array.size == len(array) * shape[0]:
            arranged[layer.name] = array.reshape(len(array), -1)
        elif array.size != len(array) * math.prod(shape):
            arranged[layer.name] = array
    return arranged
