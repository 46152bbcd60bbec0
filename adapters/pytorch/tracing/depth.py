"""Modules that drop whole images: known by the names of their classes, so each is tested for what it computes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from .draws import keep_draws
from .network import Network
from .values import DEPTH_RATES, Call, Refused, Value

SEED = 0
LEAST, MOST = 4096, 1 << 17  # images of a test
FEW = 64.0  # images that are expected to be dropped, and to be kept, unless that needs over MOST
SIZES = (2, 3, 2, 2)  # of an image's axes: each has several values
# -ln(probability) that the number of dropped images of a correct module is taken for wrong: 1e-9 on both sides.
SURE = math.log(2e9)
REPLACE = "copy timm's DropPath or torchvision's StochasticDepth"


def stochastic_depth(network: Network, call: Call) -> Value:
    """Return the output of torchvision's StochasticDepth or timm's DropPath, or of a module that does the same."""
    module: Any = call.module
    attribute = DEPTH_RATES[type(module).__name__]
    rate = getattr(module, attribute, None)
    if not isinstance(rate, int | float):
        raise Refused(f"its rate is not the number {attribute}: keep it there, as torchvision and timm do")
    if getattr(module, "mode", "row") != "row" or not getattr(module, "scale_by_keep", True):
        raise Refused("drops whole batches, or does not scale what it keeps; the layer record drops images, and scales")
    if not 0 <= rate < 1:
        raise Refused(f"its rate {attribute} is {rate:g}: it must be at least 0 and below 1")
    value = call.value
    _refuse_other(module, attribute, float(rate), len(value.shape))
    return network.emit(call, "StochasticDepth", [value], value.layout, {"rate": float(rate)}) if rate else value


def _refuse_other(module: nn.Module, attribute: str, rate: float, axes: int) -> None:
    """Raise Refused if the module does anything but drop images at its rate, in training only."""
    training = module.training
    try:
        with torch.no_grad(), keep_draws(SEED):
            found = _find_other(module.train(), attribute, rate, axes)
    except Exception as error:
        reason = f"cannot be tested on other images: {type(error).__name__}: {error}"
        raise Refused(f"{reason}; {REPLACE}") from error
    finally:
        module.train(training)
    if found:
        raise Refused(f"{found}; {REPLACE}")


def _find_other(module: nn.Module, attribute: str, rate: float, axes: int) -> str:
    """Return how the module differs from a layer record of stochastic depth; "" if it does not."""
    rarer = min(rate, 1 - rate)
    count = min(MOST, max(LEAST, math.ceil(FEW / rarer))) if rarer else LEAST
    images = 0.5 + torch.rand(count, *SIZES[: axes - 1])
    dropped = module(images.clone())
    if dropped.shape != images.shape:
        return "changes the shape of its input"
    flat, source = dropped.reshape(count, -1), images.reshape(count, -1)
    zero, kept = (flat == 0).all(1), torch.isclose(flat, source / (1 - rate), rtol=1e-4, atol=0.0).all(1)
    if not bool((zero | kept).all()):
        return f"does not set each image to 0 or divide it by 1 - {attribute} = {1 - rate:g}"
    number, variance = int(zero.sum()), count * rate * (1 - rate)
    if abs(number - count * rate) > SURE / 3 + math.sqrt(SURE**2 / 9 + 2 * SURE * variance):  # Bernstein's bound
        return f"drops {number} of {count} images, not each with probability {attribute} = {rate:g}"
    if not torch.equal(module.eval()(images.clone()), images):
        return "changes its input in evaluation, too"
    before = getattr(module, attribute)
    setattr(module.train(), attribute, 0.0)
    without = module(images.clone())
    setattr(module, attribute, before)
    return "" if torch.equal(without, images) else f"drops images while {attribute} is 0, so its rate is elsewhere"
