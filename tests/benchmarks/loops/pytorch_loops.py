"""PyTorch's tutorial "Training with PyTorch", in eager mode."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Train = Callable[[Any], list[float]]  # (steps, batch) -> losses


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)
        self.dense1, self.dense2 = nn.Linear(1024, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.dense2(self.dense1(self.conv3(x).relu().flatten(1)).relu())


def with_weights(net: Any, weights: Any) -> Any:
    with torch.no_grad():
        for key, array in weights.items():
            layer, role = key.split("/")
            value = torch.from_numpy(array)
            if role == "bias":
                getattr(net, layer).bias.copy_(value)
                continue
            if layer == "dense1":  # canonical: rows by height, width, channel
                value = value.reshape(4, 4, 64, -1).permute(2, 0, 1, 3).reshape(1024, -1)
            getattr(net, layer).weight.copy_(value.permute(3, 2, 0, 1) if value.ndim == 4 else value.T)
    return net


def by_hand(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    torch.set_num_threads(threads)
    memory_format = torch.channels_last if "channels-last" in settings else torch.contiguous_format
    net = with_weights(Net(), weights).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused="fused" in settings or None)
    loss_fn = nn.CrossEntropyLoss()

    def train(order: Any) -> list[float]:
        losses = []
        for batch in order:
            inputs = torch.from_numpy(images[batch]).permute(0, 3, 1, 2).contiguous(memory_format=memory_format)
            optimizer.zero_grad()
            loss = loss_fn(net(inputs.float() / 255), torch.from_numpy(labels[batch]).long())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [loss.item() for loss in losses]

    return train


LOOPS = {"by-hand": by_hand}
TRAINERS: dict[str, Any] = {}
