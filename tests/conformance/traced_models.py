"""Models in PyTorch code that an import must get right, or refuse: python traced_models.py FOLDER NAME..."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

CLASSES, SHAPE = 5, (12, 10, 3)  # images that are not square


class NormAct(nn.BatchNorm2d):
    """A norm with its activation, called as a function, as timm writes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activated norm of `x`."""
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        ).relu()


class Computes(nn.Module):
    """A model whose forward pass is a function of itself and the images."""

    def __init__(self, forward: Callable[[Any, torch.Tensor], Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.computes = forward

    def forward(self, x: torch.Tensor) -> Any:
        """Return whatever the function returns."""
        return self.computes(self, x)


def pooled(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Return logits of images of 8 channels."""
    return net.head(x.mean((2, 3)))


def head(channels: int = 8) -> nn.Linear:
    """Return the last layer."""
    return nn.Linear(channels, CLASSES)


def conv(entering: int = 3, leaving: int = 8, kernel: int = 3, **settings: Any) -> nn.Conv2d:
    """Return a convolution."""
    return nn.Conv2d(entering, leaving, kernel, **settings)


class StochasticDepth(nn.Module):
    """Has the fields and the name of torchvision's."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop images in training."""
        if not self.training:
            return x
        kept = torch.bernoulli(torch.full((len(x), *[1] * (x.dim() - 1)), 1 - self.p))
        return x * kept / (1 - self.p)


class DropPath(nn.Module):
    """Has the name of timm's, and its rate elsewhere."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop images in training."""
        if not self.training:
            return x
        return x * torch.bernoulli(torch.full((len(x), 1, 1, 1), 1 - self.rate)) / (1 - self.rate)


class OwnDropPath(nn.Module):
    """A user's copy of timm's, with what its forward pass does in training."""

    def __init__(self, drop_prob: float, drops: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.drop_prob, self.drops = drop_prob, drops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop images in training."""
        return self.drops(self, x) if self.training and self.drop_prob else x


OwnDropPath.__name__ = "DropPath"


def of_images(x: torch.Tensor) -> list[int]:
    """Return the shape of one number per image."""
    return [len(x), *[1] * (x.dim() - 1)]


def floored(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Drop images as timm's older versions do."""
    kept = 1 - net.drop_prob
    return x.div(kept) * (kept + torch.rand(of_images(x), dtype=x.dtype, device=x.device)).floor_()


def kept_of(net: Any, x: torch.Tensor, *shape: int) -> torch.Tensor:
    """Return `x` divided by what is kept, times a mask of this shape."""
    kept = 1 - net.drop_prob
    return x * torch.bernoulli(torch.full(shape or of_images(x), kept)) / kept


WRONG_PATHS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "path-of-one-coin": lambda net, x: x * (torch.rand(1) >= net.drop_prob).float(),
    "path-of-one-coin-rescaled": lambda net, x: kept_of(net, x, 1),
    "path-not-rescaled": lambda net, x: x * torch.bernoulli(torch.full(of_images(x), 1 - net.drop_prob)),
    "path-of-channels": lambda net, x: kept_of(net, x, *x.shape[:2], *of_images(x)[2:]),
    "path-that-keeps-the-rate": lambda net, x: (
        x * torch.bernoulli(torch.full(of_images(x), net.drop_prob)) / (1 - net.drop_prob)
    ),
    "path-of-another-shape": lambda net, x: kept_of(net, x)[:1],
    "path-of-one-size": lambda net, x: x * torch.ones(2, 8, 10, 8),
}


class OtherDropPath(nn.Module):
    """Drops images in evaluation, too, or at a rate that was copied when it was made."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.drop_prob, self.always, self.kept = 0.25, always, 0.75

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop images."""
        if self.always:
            return kept_of(self, x) if self.drop_prob else x
        return x * torch.bernoulli(torch.full(of_images(x), self.kept)) / self.kept if self.training else x


OtherDropPath.__name__ = "DropPath"


def a_path(drops: Callable[[Any, torch.Tensor], torch.Tensor], rate: float = 0.25) -> Callable[[], nn.Module]:
    """Return what makes a model with a DropPath of the user's own."""
    return simple(lambda net, x: pooled(net, net.drop(net.conv(x))), drop=lambda: OwnDropPath(rate, drops))


def own_paths(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Drop images at many rates, then tokens and vectors."""
    for path in net.paths:
        x = path(x) if isinstance(path, nn.Conv2d) else x + path(x)
    x = net.drop_tokens(x.flatten(2).transpose(1, 2)).mean(1)
    return net.head(net.drop_vectors(x))


def with_replaced_forward() -> nn.Module:
    """Return a model whose Dropout drops whole images."""
    net = Computes(lambda net, x: pooled(net, net.drop(net.conv(x))), conv=conv(), drop=nn.Dropout(0.25), head=head())
    net.drop.forward = lambda x: x * torch.bernoulli(torch.full(of_images(x), 0.75)) / 0.75
    return net


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """Drop whole images, though its name is that of PyTorch's dropout of values."""
    return x * torch.bernoulli(torch.full(of_images(x), 1 - p)) / (1 - p) if training else x


torch.fx.wrap("dropout")


def coin(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Skip a layer for the whole batch if a coin says so, as Huang et al. (2016) do."""
    x = net.conv(x)
    if not net.training or torch.rand(1).item() >= net.rate:
        x = x + net.second(x)
    return pooled(net, x)


class Vit(nn.Module):
    """A small vision transformer, as torchvision writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = conv(3, 8, 2, stride=2)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 31, 8))
        self.norm = nn.LayerNorm(8, eps=1e-6)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.dense = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 8))
        self.head = head()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits of the class token."""
        n, _, h, w = x.shape
        torch._assert(h == 12, "wrong height")
        x = self.patches(x).reshape(n, 8, (h // 2) * (w // 2)).permute(0, 2, 1)
        x = torch.cat([self.token.expand(n, -1, -1), x], dim=1) + self.positions
        y = self.norm(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        return self.head((x + self.dense(x))[:, 0])


class Attention(nn.Module):
    """Self-attention as timm writes it; versions of it differ in whether they have a gate."""

    __module__ = "timm.layers.attention"

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.scale = 2, 4, 4**-0.5
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.q_norm, self.k_norm, self.norm = nn.Identity(), nn.Identity(), nn.Identity()
        self.attn_drop, self.proj_drop = nn.Dropout(0.0), nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return tokens of (n, t, 8)."""
        query, key, value = self.qkv(x).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return self.proj(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class LastNorm(nn.LayerNorm):
    """LayerNorm of channels first, as in torchvision's ConvNeXt."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` normalised over its channels."""
        x = x.permute(0, 2, 3, 1)
        x = functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """A block of ConvNeXt, as torchvision writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 2, stride=2), LastNorm(8, eps=1e-6))
        self.scale = nn.Parameter(torch.full((8, 1, 1), 0.25))
        self.depthwise = conv(8, 8, 7, padding=3, groups=8)
        self.rest = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.drop = StochasticDepth(0.25, "row")
        self.norm, self.head = LastNorm(8), head()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        x = self.stem(x)
        y = self.rest(self.depthwise(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = self.drop(self.scale * y)
        y += x
        y = self.norm(functional.adaptive_avg_pool2d(y, 1))
        return self.head(torch.flatten(y, 1))


def squeeze(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Squeeze and excite, then logits."""
    x = net.act(net.conv(x))
    gate = net.gate(net.down(x.mean([2, 3], keepdim=True)).relu())
    return pooled(net, torch.sigmoid(gate) * x)


def dense_block(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Concatenate a list of features, as DenseNet does."""
    features = [net.conv(x)]
    features.append(net.first(torch.cat(features, 1)))
    features.append(net.second(torch.cat(features, 1)))
    return net.head(functional.avg_pool2d(torch.cat(features, 1), 12 * 10 and (12, 10)).view(x.size(0), -1))


def in_place(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Overwrite a value that a shortcut reads afterwards."""
    x = net.conv(x)
    y = net.second(functional.relu(x, inplace=True))
    return pooled(net, x + y)


def many(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Use every activation once."""
    x = functional.silu(net.bn(net.conv(x)))
    x = functional.hardswish(functional.gelu(x) + functional.relu6(x))
    x = net.act(torch.tanh(x)) + functional.hardsigmoid(x) + functional.softmax(x, dim=1)
    return pooled(net, net.more(x))


def shaped(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Branch on a shape, which is no value of a tensor."""
    if x.shape[2] > 4 and len(x) >= 1 and x.dim() == 4:
        x = net.conv(x)
    return pooled(net, x)


def prepared(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Normalise the images first."""
    return pooled(net, net.conv((x - net.mean) / net.std * 2 + 1))


def with_buffers(**parts: Any) -> nn.Module:
    """Return a model with a mean and a deviation per channel."""
    net = Computes(prepared, **parts)
    net.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).reshape(1, 3, 1, 1))
    net.register_buffer("std", torch.tensor([0.25, 0.5, 2.0]).reshape(3, 1, 1))
    return net


def cloned(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Keep a copy as the shortcut, and overwrite the value that it was made of."""
    x = net.conv(x)
    shortcut = x.clone()
    return pooled(net, net.second(functional.relu_(x)) + shortcut)


def summed(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Write numbers before the value, and add a list up."""
    x = net.conv(1.0 + 2 * x)
    return pooled(net, sum([x, net.second(x)]))


def simple(forward: Callable[[Any, torch.Tensor], Any], **parts: Any) -> Callable[[], nn.Module]:
    """Return what makes a model with a convolution and a head."""
    return lambda: Computes(forward, conv=conv(), head=head(), **{name: part() for name, part in parts.items()})


PATH_RATES = (0.0, 1e-6, 0.004, 0.1, 0.5, 0.9, 0.999)
IMPORTED: dict[str, Callable[[], nn.Module]] = {
    "vit": Vit,
    "conv-next": ConvNext,
    "squeeze-excite": lambda: Computes(
        squeeze, conv=conv(), act=nn.ReLU(inplace=True), down=conv(8, 4, 1), gate=conv(4, 8, 1), head=head()
    ),
    "dense-block": lambda: Computes(
        dense_block, conv=conv(padding=1), first=conv(8, 8, padding="same"), second=conv(16, 4, padding=1),
        head=head(20),
    ),
    "in-place": lambda: Computes(in_place, conv=conv(), second=conv(8, 8, padding=1), head=head()),
    "activations": lambda: Computes(
        many, conv=conv(), bn=nn.BatchNorm2d(8, eps=1e-3, momentum=0.01), act=nn.Hardtanh(0, 6),
        more=nn.Sequential(nn.Hardswish(), nn.Tanh(), nn.Sigmoid(), nn.SiLU(), nn.ReLU6(), nn.Identity()), head=head(),
    ),
    "branch-on-shape": lambda: Computes(shaped, conv=conv(), head=head()),
    "normalised": lambda: with_buffers(conv=conv(), head=head()),
    "flattened": lambda: Computes(
        lambda net, x: net.head(net.norm(torch.flatten(net.conv(x), 1))), conv=conv(stride=2),
        norm=nn.BatchNorm1d(160), head=head(160),
    ),
    "pools": lambda: nn.Sequential(
        conv(padding=(1, 2)), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        nn.MaxPool2d(2, ceil_mode=True), nn.ZeroPad2d((1, 0, 2, 1)), conv(8, 8, 2, dilation=2), nn.Flatten(),
        nn.LazyLinear(CLASSES),
    ),
    "groups": lambda: nn.Sequential(
        conv(3, 8, bias=False), conv(8, 4, groups=2), conv(4, 4, groups=4, stride=2, padding=1),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), head(4),
    ),
    "bare": lambda: nn.Sequential(
        conv(), nn.BatchNorm2d(8, affine=False), nn.GELU("tanh"), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, CLASSES, bias=False),
    ),
    "dropouts": lambda: Computes(
        lambda net, x: pooled(net, functional.dropout(net.drop(net.conv(x)), 0.25, net.training)),
        conv=conv(), drop=nn.Dropout(0.5), head=head(),
    ),
    "norm-as-function": lambda: Computes(
        lambda net, x: pooled(net, net.norm(net.conv(x))), conv=conv(), norm=NormAct(8), head=head()
    ),
    "tokens-mean": lambda: Computes(
        lambda net, x: net.head(net.norm(net.conv(x).flatten(2).transpose(1, 2)).mean(dim=1)), conv=conv(),
        norm=nn.LayerNorm(8), head=head(),
    ),
    "attention-of-timm": simple(
        lambda net, x: net.head(net.attention(net.conv(x).flatten(2).transpose(1, 2)).mean(1)), attention=Attention
    ),
    "one-module-many-times": lambda: Computes(
        lambda net, x: pooled(net, net.act(net.second(net.act(net.conv(x))))), conv=conv(), second=conv(8, 8),
        act=nn.ReLU(), head=head(),
    ),
    "cloned": lambda: Computes(cloned, conv=conv(), second=conv(8, 8, padding=1), head=head()),
    "numbers-first": lambda: Computes(summed, conv=conv(), second=conv(8, 8, padding=1), head=head()),
    "own-drop-paths": lambda: Computes(
        own_paths, paths=nn.ModuleList([conv(), *(OwnDropPath(rate, floored) for rate in PATH_RATES)]),
        drop_tokens=OwnDropPath(0.5, kept_of), drop_vectors=OwnDropPath(0.25, kept_of), head=head(),
    ),
    "whole-slices": lambda: Computes(lambda net, x: pooled(net, net.conv(x[:, :3][..., :])), conv=conv(), head=head()),
}  # fmt: skip


def frozen() -> nn.Module:
    """Return a model with a layer that is not trained."""
    net = Computes(lambda net, x: pooled(net, net.conv(x)), conv=conv(), head=head())
    net.conv.weight.requires_grad_(False)
    return net


def hooked() -> nn.Module:
    """Return a model whose convolution has a hook."""
    net = Computes(lambda net, x: pooled(net, net.conv(x)), conv=conv(), head=head())
    net.conv.register_forward_hook(lambda module, given, y: 2 * y)
    return net


def tied() -> nn.Module:
    """Return a model of which two layers have one weight."""
    net = Computes(lambda net, x: pooled(net, net.more(net.conv(x))), conv=conv(3, 3), more=conv(3, 3), head=head(3))
    net.more.weight = net.conv.weight
    return net


class TwoInputs(nn.Module):
    """A model of two inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return nothing of use."""
        return x + y


class Mode(nn.Module):
    """A model that computes something else in training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = conv(), head()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        x = self.conv(x)
        return pooled(self, x.relu() if self.training else x)


REFUSED: dict[str, Callable[[], nn.Module]] = {
    "branch-on-values": simple(lambda net, x: pooled(net, net.conv(x) if x.sum() > 0 else -net.conv(x))),
    "reads-a-value": simple(lambda net, x: pooled(net, net.conv(x) * x.max().item())),
    "module-twice": simple(lambda net, x: pooled(net, net.same(net.same(net.conv(x)))), same=lambda: conv(8, 8)),
    "tied": tied,
    "two-inputs": TwoInputs,
    "two-outputs": simple(lambda net, x: (pooled(net, net.conv(x)), x)),
    "dictionary": simple(lambda net, x: {"logits": pooled(net, net.conv(x))}),
    "images-as-output": simple(lambda net, x: net.conv(x)),
    "unknown-module": simple(lambda net, x: pooled(net, net.act(net.conv(x))), act=nn.PReLU),
    "unknown-function": simple(lambda net, x: pooled(net, torch.cumsum(net.conv(x), 1))),
    "transposed-convolution": simple(lambda net, x: pooled(net, net.up(net.conv(x))),
                                     up=lambda: nn.ConvTranspose2d(8, 8, 2)),
    "padding-mode": lambda: Computes(lambda net, x: pooled(net, net.conv(x)), head=head(),
                                     conv=conv(padding=1, padding_mode="reflect")),
    "stride-of-two-numbers": lambda: Computes(lambda net, x: pooled(net, net.conv(x)), conv=conv(stride=(1, 2)),
                                              head=head()),
    "average-of-padding": simple(lambda net, x: pooled(net, functional.avg_pool2d(net.conv(x), 3, 1, 1))),
    "divisor": simple(lambda net, x: pooled(net, functional.avg_pool2d(net.conv(x), 2, divisor_override=3))),
    "batch-norm-without-statistics": simple(lambda net, x: pooled(net, net.bn(net.conv(x))),
                                            bn=lambda: nn.BatchNorm2d(8, track_running_stats=False)),
    "batch-norm-without-momentum": simple(lambda net, x: pooled(net, net.bn(net.conv(x))),
                                          bn=lambda: nn.BatchNorm2d(8, momentum=None)),
    "norm-without-parameters": simple(lambda net, x: net.head(net.norm(net.conv(x).mean((2, 3)))),
                                      norm=lambda: nn.LayerNorm(8, elementwise_affine=False)),
    "norm-without-shift": simple(lambda net, x: net.head(net.norm(net.conv(x).mean((2, 3)))),
                                 norm=lambda: nn.LayerNorm(8, bias=False)),
    "norm-as-a-function": simple(lambda net, x: net.head(functional.layer_norm(net.conv(x).mean((2, 3)), (8,)))),
    "norm-of-rows": simple(lambda net, x: pooled(net, net.norm(net.conv(x))),
                           norm=lambda: nn.LayerNorm([8, 10, 8])),
    "frozen": frozen,
    "hooked": hooked,
    "unused": simple(lambda net, x: pooled(net, net.conv(x)), more=lambda: conv(8, 8)),
    "mode": Mode,
    "dropout-in-evaluation": simple(lambda net, x: pooled(net, functional.dropout(net.conv(x)))),
    "whole-batches-dropped": simple(lambda net, x: pooled(net, net.drop(net.conv(x))),
                                    drop=lambda: StochasticDepth(0.5, "batch")),
    "rate-elsewhere": simple(lambda net, x: pooled(net, net.drop(net.conv(x))), drop=lambda: DropPath(0.5)),
    "path-in-evaluation": simple(lambda net, x: pooled(net, net.drop(net.conv(x))),
                                 drop=lambda: OtherDropPath(True)),
    "path-with-a-copied-rate": simple(lambda net, x: pooled(net, net.drop(net.conv(x))),
                                      drop=lambda: OtherDropPath(False)),
    "path-of-rate-1": a_path(kept_of, 1.0),
    "forward-replaced": with_replaced_forward,
    "wrapped-by-a-name": simple(lambda net, x: pooled(net, dropout(net.conv(x), 0.25, net.training))),
    "coin-per-batch": lambda: Computes(coin, conv=conv(), second=conv(8, 8, padding=1), head=head(), rate=1e-9),
    **{name: a_path(drops) for name, drops in WRONG_PATHS.items()},
    "channels-exchanged": simple(lambda net, x: pooled(net, net.conv(x[:, [2, 1, 0]]))),
    "softmax-at-the-end": simple(lambda net, x: pooled(net, net.conv(x)).softmax(1)),
    "sigmoid-at-the-end": simple(lambda net, x: torch.sigmoid(pooled(net, net.conv(x))).clone()),
    "cropped": simple(lambda net, x: pooled(net, net.conv(net.pad(x))), pad=lambda: nn.ZeroPad2d((-1, 0, 0, 0))),
    "attention-not-batch-first": lambda: Computes(
        lambda net, x: net.head(net.attention(*[net.conv(x).flatten(2).transpose(1, 2)] * 3)[0].mean(1)), conv=conv(),
        attention=nn.MultiheadAttention(8, 2), head=head(),
    ),
    "reshape-of-channels": simple(lambda net, x: pooled(net, net.conv(x).reshape(-1, 2, 4, 10, 8).flatten(1, 2))),
    "module-made-in-forward": simple(lambda net, x: pooled(net, nn.ReLU()(net.conv(x)))),
    "other-size": simple(lambda net, x: net.conv(x).flatten(1) @ torch.ones(3, 5)),
}  # fmt: skip


def jolt(model: nn.Module) -> nn.Module:
    """Return the model with weights and statistics that are not at a value of no effect."""
    torch.manual_seed(1)
    buffers = [buffer for name, buffer in model.named_buffers() if name.rpartition(".")[2].startswith("running")]
    for tensor in (*model.parameters(), *buffers):
        if tensor.is_floating_point() and not (tensor.dim() > 1 and tensor.numel() > 100):
            tensor.data.uniform_(0.5, 1.5)
        elif tensor.is_floating_point() and bool((tensor == tensor.reshape(-1)[0]).all()):
            tensor.data.uniform_(-0.1, 0.1)
    return model


def main(folder: Path, names: list[str]) -> None:
    """Trace each model into FOLDER/NAME, with its logits of FOLDER/pixels.npy, in float64."""
    import traced_folder

    pixels = np.load(folder / "pixels.npy")
    for name in names:
        make = (IMPORTED | REFUSED)[name]
        traced_folder.trace_into(folder / name, make, SHAPE, pixels, jolt if name in IMPORTED else None)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main(Path(sys.argv[1]), sys.argv[2:] or [*IMPORTED, *REFUSED])
