"""Trace a model's forward pass on real tensors: shapes are numbers, so only branches on a tensor's values stop it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch.fx.node import map_aggregate

from .draws import keep_draws, read_draws
from .values import DEPTH_RATES, TIMM_ATTENTION, Refused

# Modules outside torch.nn that stay whole, by the names of their classes: they draw random numbers.
LEAVES = tuple(DEPTH_RATES)
# Attributes of a tensor, and calls, whose results are no tensors and do not depend on the tensor's values.
ATTRIBUTES = ("shape", "ndim", "dtype", "device", "is_cuda", "requires_grad", "layout", "is_sparse", "is_nested")
QUESTIONS = (
    "size", "dim", "numel", "ndimension", "stride", "is_contiguous", "is_floating_point", "getattr", "_assert", "len",
    "nelement", "get_device", "is_grad_enabled", "getitem",
)  # fmt: skip
LIBRARIES = ("torch", "torchvision", "timm")  # packages whose functions are what their names say
DRAWS = "its forward pass draws random numbers by itself: use nn.Dropout, or a module DropPath as timm's"
BRANCHES = (
    "its forward pass branches on the values of a tensor, so the network is not fixed: remove the branch from the code"
)


class ShapedProxy(fx.Proxy):
    """Stands for a tensor in the trace, and answers what does not depend on the tensor's values."""

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the tensor, or a proxy of it."""
        return getattr(self.node.meta["value"], name) if name in ATTRIBUTES else super().__getattr__(name)

    def __len__(self) -> int:
        """Return the size of the first axis."""
        return len(self.node.meta["value"])


class ValueTracer(fx.Tracer):
    """Records a graph and computes each node at once; what is not a tensor is a number of the trace, not a node."""

    def __init__(self, sample: torch.Tensor) -> None:
        super().__init__()
        self.sample, self.computing, self.inputs = sample, False, 0
        self.places: list[tuple[str, str]] = []  # (path, type) of the modules being called

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """True for modules of torch.nn, for those of LEAVES, and for timm's self-attention."""
        kind = type(m)
        whole = kind.__name__ in LEAVES or (kind.__module__, kind.__name__) == TIMM_ATTENTION
        return super().is_leaf_module(m, module_qualified_name) or whole

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """Return the stand-in of a node."""
        return ShapedProxy(node, self)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return a module's attribute: parameters as proxies, unless a node is being computed."""
        return attr_val if self.computing else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a module, and say where it is in whatever it raises."""
        if self.computing:
            return forward(*args, **kwargs)
        kind = type(m).__name__
        try:
            path = self.path_of_module(m)
        except NameError:
            raise Refused(f"calls a {kind} that is not in the model: make it in __init__", *self._place()) from None
        self.places.append((path, kind))
        before = read_draws()
        try:
            output = super().call_module(m, forward, args, kwargs)
            if read_draws() != before:
                raise Refused(DRAWS, path, kind)
            return output
        except Refused:
            raise
        except fx.proxy.TraceError as error:
            raise Refused(BRANCHES, path, kind) from error
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}", path, kind) from error
        finally:
            self.places.pop()

    def _place(self) -> tuple[str, str]:
        return self.places[-1] if self.places else ("", type(self.root).__name__)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **others: Any) -> Any:
        """Record a node and compute it. What is not a tensor is returned unchanged."""
        if kind == "placeholder":
            self.inputs += 1
            if self.inputs > 1:
                return self._other_input(target, args)
            value: Any = self.sample
        elif kind == "output":
            return super().create_proxy(kind, target, args, kwargs, *more, **others)
        else:
            self._refuse_wrapped(target)
            value = self._compute(kind, target, args, kwargs)
        if not _has_tensor(value):
            name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
            if name not in QUESTIONS:
                raise Refused(f"its forward pass reads a tensor's values ({name}): {BRANCHES}", *self._place())
            return value
        proxy = super().create_proxy(kind, target, args, kwargs, *more, **others)
        proxy.node.meta.update(value=value, place=self._place()[0])
        return proxy

    def _refuse_wrapped(self, target: Any) -> None:
        """Raise Refused for a function of the user's that stays whole: its name does not say what it computes."""
        if isinstance(target, FunctionType) and str(target.__module__).partition(".")[0] not in LIBRARIES:
            reason = "stays whole by torch.fx.wrap, so its code is not read: remove the wrap"
            raise Refused(reason, self._place()[0], target.__name__)

    def _other_input(self, target: str, default: Any) -> Any:
        """Return the default of a further input; a model without one is refused before it is traced."""
        if target.startswith("**"):
            return {}
        if target.startswith("*"):
            return ()
        return default[0]

    def _compute(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """Compute a node on the tensors that the proxies stand for."""
        args, kwargs = map_aggregate((args, kwargs), _tensor_of)
        self.computing = True
        try:
            with torch.no_grad(), keep_draws():
                if kind == "get_attr":
                    return operator.attrgetter(target)(self.root)
                if kind == "call_module":
                    return self.root.get_submodule(target)(*args, **kwargs)
                if kind == "call_method":
                    return getattr(args[0], target)(*args[1:], **kwargs)
                return target(*args, **kwargs)
        finally:
            self.computing = False


def _tensor_of(value: Any) -> Any:
    return value.node.meta["value"] if isinstance(value, fx.Proxy) else value


def _has_tensor(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_tensor, value)) and not isinstance(value, torch.Size)
    return isinstance(value, torch.Tensor)


def trace(model: nn.Module, sample: torch.Tensor) -> fx.Graph:
    """Return the graph of the model in its present mode; its buffers stay as they are. Raises Refused."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    tracer = ValueTracer(sample)
    kind, before = type(model).__name__, read_draws()
    try:
        graph = tracer.trace(model)
        if read_draws() != before:
            raise Refused(DRAWS, "", kind)
        return graph
    except fx.proxy.TraceError as error:
        raise Refused(BRANCHES, "", kind) from error
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}", "", kind) from error
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                buffer.copy_(buffers[name])
