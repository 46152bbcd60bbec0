"""The same training as PyTorch's tutorial writes it: no line of Batchwise, only its input files."""

import json
import sys

import numpy as np
import torch
from torch import nn

request = json.loads(sys.argv[1])
train_images, train_labels, test_images, test_labels, order = (
    np.load(request[name]) for name in ("train_images", "train_labels", "test_images", "test_labels", "order")
)
initial = np.load(request["weights"])


def to_tensor(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 255


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)
        self.dense1, self.dense2 = nn.Linear(1024, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        x = self.conv3(x).relu().permute(0, 2, 3, 1).flatten(1)  # channels last, so the dense weights fit as they are
        return self.dense2(self.dense1(x).relu())


net = Net()
with torch.no_grad():
    for key in initial.files:
        layer, role = key.split("/")
        value = torch.from_numpy(initial[key])
        if role == "bias":
            getattr(net, layer).bias.copy_(value)
        else:
            getattr(net, layer).weight.copy_(value.permute(3, 2, 0, 1) if value.ndim == 4 else value.T)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
losses = []
for epoch in range(request["epochs"]):
    for batch in np.split(order[epoch], range(request["batch_size"], len(order[epoch]), request["batch_size"])):
        optimizer.zero_grad()
        logits = net(to_tensor(train_images[batch]))
        loss = nn.functional.cross_entropy(logits, torch.from_numpy(train_labels[batch]).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
with torch.no_grad():
    accuracy = (net(to_tensor(test_images)).argmax(1).numpy() == test_labels).mean()
print(json.dumps({"first_losses": losses[:10], "test_accuracy": float(accuracy)}))
