"""An archive in the layout of Microsoft's cats and dogs: small pictures, each of another colour."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from workloads.pets import CLASSES

NAME = "kagglecatsanddogs_5340.zip"


def jpeg(number: int, label: int, size: tuple[int, int] = (10, 10)) -> bytes:
    """A picture of one colour: red encodes the class, green and blue the number."""
    pixels = np.full((*size, 3), (60 + 120 * label, number // 40 * 4, number % 40 * 6), np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, format="JPEG", quality=95, subsampling=0)
    return content.getvalue()


def write(
    folder: Path, count: int = 1003, others: Mapping[str, bytes] | None = None, size: tuple[int, int] = (10, 10)
) -> Path:
    """Write so many pictures per class, 0.jpg and on; `others` are members added to them or in place of them."""
    members = {f"PetImages/{name}/{n}.jpg": (n, label) for label, name in enumerate(CLASSES) for n in range(count)}
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / NAME, "w") as archive:
        for name in CLASSES:
            archive.mkdir(f"PetImages/{name}")
        for member, (number, label) in members.items():
            if member not in (others or {}):
                archive.writestr(member, jpeg(number, label, size))
        for member, content in (others or {}).items():
            archive.writestr(member, content)
    return folder / NAME
