"""Write the ONNX files of tests/unit/test_onnx_door.py next to this file, in PyTorch's environment with onnx.

    PYTHONPATH=FOLDER .envs/pytorch-cpu/bin/python tests/conformance/imported/onnx_net.py

FOLDER has onnx, onnxscript, onnx_ir, ml_dtypes, protobuf and packaging. Written with torch 2.13 and onnx 1.23.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.onnx import TrainingMode

SHAPE, CLASSES = (2, 3, 12, 12), 5
UNFOLDED = {"training": TrainingMode.TRAINING, "do_constant_folding": False}


class Block(nn.Module):
    """A convolution with a norm, a depthwise one, and squeeze and excite, added to what enters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4, momentum=0.25, eps=1e-3)
        self.depthwise = nn.Conv2d(4, 4, 3, 1, 1, groups=4)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.SiLU(), nn.Conv2d(2, 4, 1), nn.Hardsigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, 4, h, w)."""
        y = self.depthwise(torch.relu(self.norm(self.conv(x))))
        return x + y * self.gate(y)


class Net(nn.Module):
    """The block, and a head: of tokens, or of the flattened images."""

    def __init__(self, tokens: bool) -> None:
        super().__init__()
        self.tokens, self.stem, self.pool, self.block = tokens, nn.Conv2d(3, 4, 3, 2, 1), nn.MaxPool2d(2), Block()
        self.mix, self.act, self.drop = nn.Linear(4, 4), nn.GELU(), nn.Dropout(0.25)
        self.norm, self.scale = nn.LayerNorm(4), nn.Parameter(torch.full((4,), 0.5))
        self.head = nn.Linear(4 if tokens else 36, CLASSES, bias=tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, classes)."""
        x = self.block(self.pool(nn.functional.hardswish(self.stem(x - 0.5))))
        if not self.tokens:
            return self.head(self.drop(torch.flatten(x, 1)))
        x = torch.flatten(x, 2).transpose(1, 2)
        x = x + self.scale * self.act(self.mix(self.norm(x)))
        return self.head(x.mean(1))


def write(name: str, tokens: bool, **settings: Any) -> None:
    """Export a net whose weights and statistics are not at a value of no effect."""
    torch.manual_seed(1)
    net = Net(tokens)
    for name_of, tensor in (*net.named_parameters(), *net.named_buffers()):
        if tensor.is_floating_point() and tensor.dim() < 2 and name_of != "scale":
            tensor.data.uniform_(0.5, 1.5)
    path = Path(__file__).with_name(f"{name}.onnx")
    torch.onnx.export(
        net.train(), torch.rand(SHAPE), str(path), input_names=["images"], output_names=["logits"], opset_version=17,
        dynamo=False, **settings,
    )  # fmt: skip


if __name__ == "__main__":
    assert len(sys.argv) == 1, __doc__
    write("tokens", True, **UNFOLDED)
    write("flattened", False, dynamic_axes={"images": {0: "n"}}, **UNFOLDED)
    write("folded", False)
