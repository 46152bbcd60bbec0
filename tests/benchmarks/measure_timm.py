"""Try to import timm models that nobody chose: python measure_timm.py [COUNT] [SEED], in PyTorch's environment.

The models are random.Random(SEED).sample(timm.list_models(), COUNT), by default 10 and 37. Each is made without trained
weights for 10 classes and images of 64 x 64, of its own size where it takes no other, and traced as the runner does.
Printed as rows of docs/evidence/timm.md: model, parameters, and layers or the line that refuses it.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "conformance")]

import torch  # noqa: E402
from torchvision_models import define_operators  # noqa: E402

from adapters.pytorch.tracing import __main__ as program  # noqa: E402
from adapters.pytorch.tracing.values import Refused  # noqa: E402
from workloads.records.network import OwnCode  # noqa: E402
from workloads.source.graph import ImportRefused  # noqa: E402
from workloads.source.traced import TRACED_FILE, read_traced  # noqa: E402

SIDE, CLASSES = 64, 10


def make(name: str) -> tuple[Any, tuple[int, int, int]]:
    """Return the model and the shape (h, w, c) of its images."""
    import timm

    try:
        return timm.create_model(name, num_classes=CLASSES, img_size=SIDE), (SIDE, SIDE, 3)
    except TypeError:  # convolutions take any size
        return timm.create_model(name, num_classes=CLASSES), (SIDE, SIDE, 3)


def attempt(name: str) -> tuple[str, str]:
    """Return (parameters, what became of it)."""
    torch.manual_seed(0)
    model, shape = make(name)
    parameters = f"{sum(each.numel() for each in model.parameters()):,}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            traced = program.import_module(model, shape, Path(folder))
            (Path(folder) / TRACED_FILE).write_text(json.dumps(traced))
            code = OwnCode("pytorch", "net.py", name, "0" * 12, CLASSES, shape)
            layers = sum(1 for _ in read_traced(Path(folder), code, b"", "net").workload.walk())
        except Refused as refusal:
            return parameters, f"refused: {refusal.line()}"
        except ImportRefused as refusal:
            return parameters, f"refused: {refusal}"
    return parameters, f"imported: {layers} layers"


def main(count: int, seed: int, *wanted: str) -> None:
    """Print a row for each model."""
    define_operators()
    import timm

    names = random.Random(seed).sample(timm.list_models(), count)
    print(f"timm {timm.__version__}, {len(timm.list_models())} models, torch {torch.__version__}", flush=True)
    for name in wanted or names:
        print("|", " | ".join((name, *attempt(name))), "|", flush=True)


if __name__ == "__main__":
    main(int((sys.argv[1:2] or ["10"])[0]), int((sys.argv[2:3] or ["37"])[0]), *sys.argv[3:])
