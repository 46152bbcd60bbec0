"""Find a data set that is given by its path."""

from __future__ import annotations

import re
from pathlib import Path

from runner.data.archive import of_archive
from runner.data.own import Asked, OwnImages, need_pillow
from runner.data.words import shown
from workloads.datasets import DATASETS, DataError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")  # it appears in file names
AS_IS = Asked()


def find(path: Path, asked: Asked = AS_IS) -> OwnImages:
    """Return the data set of this folder or array file. Raises DataError."""
    if path.suffix == ".npz" and path.is_file():
        if asked.test_folder is not None:
            raise DataError(f"data set {shown(str(path))}: --test-folder: an array file has no folders")
        return of_archive(_checked(path, path.stem), path, asked.pixel_range)
    if path.is_dir():
        need_pillow(f"data set {shown(str(path))}")
        from runner.data.folder_images import of_folder  # a container image has no Pillow

        return of_folder(_checked(path, path.resolve().name), path, asked)
    what = "a file, and no .npz" if path.is_file() else "no folder and no .npz file" if path.exists() else "not there"
    raise DataError(f"data set {shown(str(path))}: {what}; name a folder with train/CLASS/ in it, or a .npz file")


def _checked(path: Path, name: str) -> str:
    if not NAME.fullmatch(name):
        rule = f"its name must be of A-Z, a-z, 0-9, ., _ and -, 41 at most: {shown(name)!r}"
        raise DataError(f"data set {shown(str(path))}: {rule}")
    if name in DATASETS:
        raise DataError(f"data set {shown(str(path))}: there is a published {name}; give yours a name of its own")
    return name
