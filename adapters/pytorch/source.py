"""A PyTorch module that a network was imported from, for the proof that the import is the same network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from adapters.base import Floats, SourceVerbs
from adapters.pytorch.adapter import Adapter
from adapters.pytorch.features import BiasedVariance
from adapters.pytorch.tracing.values import DEPTH_RATES
from adapters.shared import function_of
from workloads.datasets import Images, Labels
from workloads.records.source_map import Mask

# The attribute with a mask's rate, and what one number of the mask covers, by the class or an ancestor of it.
RATES: dict[type, tuple[str, str]] = {
    nn.Dropout1d: ("p", "channel"),
    nn.Dropout2d: ("p", "channel"),
    nn.Dropout3d: ("p", "channel"),
    nn.FeatureAlphaDropout: ("p", "channel"),
    nn.modules.dropout._DropoutNd: ("p", "value"),
    nn.MultiheadAttention: ("dropout", "value"),
}
# The same by the class's name: torchvision and timm are not imported here. The import has tested what they compute.
NAMED = {name: (attribute, "image") for name, attribute in DEPTH_RATES.items()}


class FunctionalDropout(TorchFunctionMode):
    """Sees each call of `functional.dropout` that drops values, and gives it another rate."""

    def __init__(self, change: Callable[[float], float]) -> None:
        super().__init__()
        self.change = change

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function."""
        if func is not functional.dropout:
            return func(*args, **(kwargs or {}))
        given = dict(zip(("input", "p", "training", "inplace"), args, strict=False)) | (kwargs or {})
        rate = float(given.get("p", 0.5))
        if given.get("training", True) and rate > 0:
            given["p"] = self.change(rate)
        return func(**given)


class TorchSource(SourceVerbs):
    """Verbs of a source, around the adapter that has built its module."""

    channels_first = True

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    @property
    def module(self) -> nn.Module:
        """Module that the user wrote."""
        return self.adapter.model

    def maker(self, path: Path, function: str) -> Callable[[int], Any]:
        return function_of(path, function)

    def tensors(self) -> dict[str, NDArray[Any]]:
        for norm in self.adapter.norms:
            norm.settle()
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.module.state_dict().items()}

    def set_tensors(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        state = self.module.state_dict()
        if unknown := sorted(set(tensors) - set(state)):
            raise ValueError(f"the source has no tensor {unknown[0]}: was its file changed after the import?")
        with torch.no_grad():
            for name, array in tensors.items():
                state[name].copy_(torch.from_numpy(np.asarray(array)))

    def count_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters() if parameter.requires_grad)

    def _masking(self) -> dict[nn.Module, tuple[str, str]]:
        found: dict[nn.Module, tuple[str, str]] = {}
        for module in self.module.modules():
            kinds = (RATES.get(kind) or NAMED.get(kind.__name__) for kind in type(module).__mro__)
            if (rate := next(filter(None, kinds), None)) is not None:
                found[module] = rate
        return found

    def list_masks(self, images: Images) -> list[Mask]:
        names = {module: name for name, module in self.module.named_modules()}
        masks: list[Mask] = []
        inside: list[nn.Module] = []  # a module that masks may call the function that does

        def called(module: nn.Module, attribute: str, covers: str) -> None:
            inside.pop()
            if (rate := float(getattr(module, attribute))) > 0:
                masks.append(Mask(names[module], covers, rate))

        def note(rate: float) -> float:
            masks.extend([] if inside else [Mask("functional.dropout", "value", rate)])
            return rate

        hooks = [
            module.register_forward_hook(lambda each, *_, rate=rate: called(each, *rate))
            for module, rate in self._masking().items()
        ] + [module.register_forward_pre_hook(lambda each, _: inside.append(each)) for module in self._masking()]
        self.module.train()
        with torch.no_grad(), FunctionalDropout(note):
            self.adapter._logits(self.adapter._tensor(np.array(images)))
        for hook in hooks:
            hook.remove()
        return masks

    def stop_masks(self) -> None:
        for module, (attribute, _) in self._masking().items():
            setattr(module, attribute, 0.0)
        whole = self.module.forward

        def forward(*images: Any) -> Any:
            with FunctionalDropout(lambda rate: 0.0):
                return whole(*images)

        self.module.forward = forward

    def keep_biased_variance(self, pixels: Mapping[str, int]) -> None:
        self.adapter.norms = [
            BiasedVariance(self.module.get_submodule(name.rpartition(".")[0]), (count, 1))
            for name, count in pixels.items()
        ]

    def differentiate(
        self, images: Images, labels: Labels, places: Sequence[str]
    ) -> tuple[float, dict[str, NDArray[Any]], dict[str, list[Floats]]]:
        model, outputs = self.module, dict[str, list[Floats]]()
        model.train()

        def keep(place: str, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            outputs.setdefault(place, []).append(first.detach().float().cpu().numpy().copy())  # before inplace layers

        modules = dict(model.named_modules())
        whole = {place: modules[place] for place in places if place in modules and _is_whole(modules[place])}
        hooks = [
            module.register_forward_hook(lambda _, x, y, place=place: keep(place, y)) for place, module in whole.items()
        ]
        statistics = [buffer.clone() for buffer in model.buffers()]
        loss = self.adapter.loss(self.adapter._logits(self.adapter._tensor(images)), self.adapter._tensor(labels))
        for hook in hooks:
            hook.remove()
        trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        for buffer, before in zip(model.buffers(), statistics, strict=True):
            buffer.copy_(before)
        arrays = {
            name: np.zeros(tuple(trained[name].shape), np.float32) if gradient is None else gradient.cpu().numpy()
            for name, gradient in zip(trained, gradients, strict=True)
        }
        return loss.item(), arrays, outputs


def make_source(adapter: Adapter) -> SourceVerbs:
    """Return the verbs of the source that this adapter builds."""
    return TorchSource(adapter)


def _is_whole(module: nn.Module) -> bool:
    """True if the module computes one layer: it has no parts, or is an attention, whose parts are not called."""
    return isinstance(module, nn.MultiheadAttention) or not any(True for _ in module.children())
