"""Run in PyTorch's environment: python resnet_of_torch.py INPUTS.npz OUT.npz

ResNet-18 in plain torch.nn, with the modules, names and settings of torchvision's `resnet18`, and PyTorch's adapter,
on the same weights and images. INPUTS has images (n, h, w, 3), labels and our weights.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from adapters.pytorch.adapter import Adapter
from workloads.catalogue import RESNET_18
from workloads.layers import Dense
from workloads.spec import OptimizerSpec
from workloads.weights import CHANNELS_FIRST

ROLES = {
    "kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias",
    "running_mean": "running_mean", "running_variance": "running_var",
}  # fmt: skip


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions, of which the first strides, and a shortcut."""

    def __init__(self, entering: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(entering, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample = nn.Sequential()
        if stride > 1 or entering != width:
            self.downsample.extend([nn.Conv2d(entering, width, 1, stride, bias=False), nn.BatchNorm2d(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    """(n, 3, h, w) -> (n, 1000)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def name_in_torch(key: str) -> str:
    """Return the name that torchvision gives to one of our weights."""
    layer, role = key.split("/")
    if layer == "dense":
        return f"fc.{ROLES[role]}"
    if layer in ("stem", "stem_norm"):
        return f"{'conv1' if layer == 'stem' else 'bn1'}.{ROLES[role]}"
    stage, block, part, *norm = layer.split("_")
    if part == "shortcut":
        part = f"downsample.{len(norm)}"
    elif norm:
        part = part.replace("conv", "bn")
    return f"layer{stage[-1]}.{int(block[-1]) - 1}.{part}.{ROLES[role]}"


def main(inputs: str, out: str) -> None:
    with np.load(inputs) as given:
        images, labels = given["images"], given["labels"]
        weights = {key: given[key] for key in given.files if "/" in key}
    network = replace(RESNET_18, input_shape=images.shape[1:], layers=(*RESNET_18.layers[:-1], Dense("dense", 1000)))
    theirs = ResNet18()
    state = {
        name_in_torch(key): torch.tensor(array.transpose(CHANNELS_FIRST[array.ndim]) if array.ndim > 1 else array)
        for key, array in weights.items()
    }
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing), (missing, unexpected)
    adapter = Adapter()
    adapter.open("cpu", 1, "default", "float32", "host", "on-demand")
    adapter.load(images, labels)
    adapter.build(network, OptimizerSpec("sgd", 0.01), weights, 0)
    ours, probe = adapter.predict(images), adapter.probe(images, labels)
    pixels = torch.tensor(images.transpose(0, 3, 1, 2).copy()).float() * np.float32(network.scale)
    with torch.no_grad():
        logits = theirs.eval()(pixels)
        exact = deepcopy(theirs).double()(torch.tensor(images.transpose(0, 3, 1, 2).copy()).double() * network.scale)
    theirs.train()
    loss = nn.functional.cross_entropy(theirs(pixels), torch.tensor(labels).long())
    loss.backward()
    named = dict(theirs.named_parameters())
    gradients = {f"gradients/{key}": named[name_in_torch(key)].grad for key in network.parameter_shapes()}
    canonical = {
        key: value.numpy().transpose(np.argsort(CHANNELS_FIRST[value.ndim])) if value.ndim > 1 else value.numpy()
        for key, value in gradients.items()
    }
    count = sum(each.numel() for each in theirs.parameters())
    answers = {"logits": logits.numpy(), "exact": exact.numpy(), "loss": loss.item(), "count": count, "ours": ours}
    answers |= {"our_loss": probe.loss, **canonical}
    answers |= {f"our_gradients/{key}": array for key, array in probe.gradients.items()}
    np.savez(out, **answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
