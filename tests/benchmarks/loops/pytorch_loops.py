"""Loop of PyTorch's tutorial "Training with PyTorch", and Lightning's Trainer."""

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
    if "compiled" in settings:
        net.compile()
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


def guide_feed(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make the guide's loop over a DataLoader of a TensorDataset, which was converted to float once."""
    torch.set_num_threads(threads)
    net = with_weights(Net(), weights)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    data = torch.utils.data.TensorDataset(inputs, torch.from_numpy(labels).long())

    def train(order: Any) -> list[float]:
        losses = []
        for x, y in torch.utils.data.DataLoader(data, batch_sampler=order.tolist()):
            optimizer.zero_grad()
            loss = loss_fn(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [loss.item() for loss in losses]

    return train


def lightning(images: Any, labels: Any, weights: Any, threads: int, settings: set[str]) -> Train:
    """Make a loop of Lightning's `fit` on exactly these batches, once per call; the loss that it reports is the mean
    over them."""
    import logging

    import pytorch_lightning

    class Module(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = with_weights(Net(), weights)

        def training_step(self, batch: Any, number: int) -> Any:
            x, y = batch
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.log("loss", loss, on_step=False, on_epoch=True)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    torch.set_num_threads(threads)
    inputs, targets = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255, torch.from_numpy(labels).long()
    module = Module()

    def train(order: Any) -> list[float]:
        rows = torch.from_numpy(order.ravel()).long()
        data = torch.utils.data.TensorDataset(inputs[rows], targets[rows])
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = pytorch_lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet)
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=order.shape[1]))
        return [trainer.callback_metrics["loss"].item()]

    return train


LOOPS = {"by-hand": by_hand}
FEEDS = {"guide-feed": guide_feed}
TRAINERS = {"lightning": lightning}
