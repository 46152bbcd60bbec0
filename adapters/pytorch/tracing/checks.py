"""Requirements of a model before its trace says what it computes: its parameters, its modes, its modules."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from torch import fx, nn

from .network import Network, translate
from .tracer import trace
from .values import Refused

DROPPING = ("dropout", "stochastic_depth")


def import_model(model: nn.Module, sample: Any) -> Network:
    """Return the model as nodes of ours, equal in training and in evaluation. Raises Refused."""
    _refuse_shared(model)
    model.train()
    training = trace(model, sample)
    _refuse_stuck(model)
    _refuse_fixed_norms(training, True)
    _refuse_used_twice(model, training)
    model.eval()
    evaluation = trace(model, sample)
    _refuse_fixed_norms(evaluation, False)
    _refuse_dropping(evaluation)
    dropping = frozenset(node.name for node in training.nodes if _drops(node))
    network, other = (translate(model, graph, dropping) for graph in (training, evaluation))
    _refuse_different(network, other)
    _refuse_unused(model, network)
    kept = {node["name"] for node in network.nodes}
    network.tensors = {key: part for key, part in network.tensors.items() if key.partition("/")[0] in kept}
    network.modules = {name: path for name, path in network.modules.items() if name in kept}
    return network


def _refuse_shared(model: nn.Module) -> None:
    """Refuse weights that two modules share, and weights that are not trained."""
    known: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = known.setdefault(id(parameter), name)
        if first != name:
            raise Refused(f"parameter {name} is also {first}: each layer needs its own weights", _module_of(name))
        if not parameter.requires_grad:
            raise Refused(
                f"parameter {name} is not trained (requires_grad=False); every weight is trained here: unfreeze it",
                _module_of(name), type(model.get_submodule(_module_of(name))).__name__,
            )  # fmt: skip


def _module_of(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _refuse_stuck(model: nn.Module) -> None:
    """Refuse modules that stay in evaluation mode when the model trains."""
    for path, module in model.named_modules():
        if not module.training:
            raise Refused("stays in evaluation mode while the model trains", path, type(module).__name__)


def _refuse_used_twice(model: nn.Module, graph: fx.Graph) -> None:
    """Refuse modules with weights, or parameters, that the forward pass uses more than once."""
    for path, count in Counter(str(node.target) for node in graph.nodes if node.op == "call_module").items():
        module = model.get_submodule(path)
        if count > 1 and (any(True for _ in module.parameters()) or any(True for _ in module.buffers())):
            raise Refused(
                f"is used {count} times, with the same weights each time: give each use its own module", path,
                type(module).__name__,
            )  # fmt: skip


def _flag(node: fx.Node) -> Any:
    """Return the training flag of a function of dropout."""
    place = {"dropout": 2, "stochastic_depth": 3}[str(getattr(node.target, "__name__", node.target)).rstrip("_")]
    return node.kwargs.get("training", node.args[place] if len(node.args) > place else True)


def _drops(node: fx.Node) -> bool:
    name = str(getattr(node.target, "__name__", node.target)).rstrip("_")
    return node.op == "call_function" and name in DROPPING and bool(_flag(node))


def _refuse_dropping(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if _drops(node):
            raise Refused(
                "drops values in evaluation, too: pass it training=self.training", node.meta["place"],
                getattr(node.target, "__name__", ""),
            )  # fmt: skip


def _refuse_fixed_norms(graph: fx.Graph, training: bool) -> None:
    """Refuse functions of BatchNorm that do not follow the model's mode."""
    for node in graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "batch_norm":
            flag = node.kwargs.get("training", node.args[5] if len(node.args) > 5 else False)
            if bool(flag) != training:
                raise Refused("does not follow the model's mode: pass it training=self.training", node.meta["place"],
                              "batch_norm")  # fmt: skip


def _refuse_different(training: Network, evaluation: Network) -> None:
    """Refuse a model that computes something else in training than in evaluation."""
    pairs = zip(training.nodes, evaluation.nodes, strict=False)
    first = next((one for one, other in pairs if one != other), None)
    if first is None and len(training.nodes) != len(evaluation.nodes):
        first = max(training.nodes, evaluation.nodes, key=len)[min(len(training.nodes), len(evaluation.nodes))]
    if first is not None or training.tensors != evaluation.tensors:
        place = first["place"] if first else ""
        raise Refused("computes different things in training and evaluation: remove the branch on the mode", place)


def _refuse_unused(model: nn.Module, network: Network) -> None:
    """Refuse parameters that no layer has, or that two have: counts would differ from the source's."""
    kept = {node["name"] for node in network.nodes}
    parts = [part for key, part in network.tensors.items() if key.partition("/")[0] in kept]
    if twice := [name for (name, *_), count in Counter(parts).items() if count > 1]:
        raise Refused(f"parameter {twice[0]} is used more than once: give each use its own", _module_of(twice[0]))
    used = {name for name, _, _ in parts}
    for name, _ in model.named_parameters():
        if name not in used:
            raise Refused(
                f"parameter {name} is not used by the forward pass: remove it from the model", _module_of(name),
                type(model.get_submodule(_module_of(name))).__name__,
            )  # fmt: skip


def count_parameters(model: nn.Module) -> int:
    """Return the number of all trained numbers."""
    return sum(math.prod(parameter.shape) for parameter in model.parameters())
