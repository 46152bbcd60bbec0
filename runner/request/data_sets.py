"""Find the images of a study: a published data set, a folder or an array file, or an archive of the user's."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from runner.data import twice
from runner.data.archive import read_archived_images
from runner.data.own import ImageChoices, OwnImages, need_pillow, shown
from runner.machine import description
from runner.request.parser import BadInput, need_known
from workloads.datasets import DATASETS, DataError, Dataset, Split
from workloads.spec import Workload
from workloads.study import Study, is_path

DATA_VARIABLE = "BATCHWISE_DATA"  # of the user: the folder of published data sets


def choose_data_set(study: Study, folder: Path) -> tuple[Dataset, OwnImages | None]:
    """Return the study's data set, every training image twice where it asks for that. Raises BadInput, DataError.

    Archives of the user's are searched in `folder`.
    """
    dataset, images = _found(study, folder)
    if study.augment not in ("copy", "zoom-copy"):
        return dataset, images
    if study.augment == "zoom-copy":
        need_pillow(f"augmentation {study.augment}")
    if images is not None:
        images = twice.double_own(images, study.augment)
        return _of_images(images), images
    return twice.double_published(dataset, study.augment), None


def _found(study: Study, folder: Path) -> tuple[Dataset, OwnImages | None]:
    """Return the data set unchanged. Raises BadInput, DataError."""
    if is_path(study.dataset):
        if study.test_all:
            raise _nothing_left(study.dataset)
        images: OwnImages = find_images(Path(study.dataset), ImageChoices(study.test_folder, study.pixel_range))
        return _of_images(images), images
    if study.dataset not in DATASETS and Path(study.dataset).is_dir():
        raise BadInput(f"unknown data set {study.dataset!r}: for the folder of that name write ./{study.dataset}")
    dataset = DATASETS[need_known("data set", study.dataset, DATASETS)]
    if study.test_folder is not None:
        raise BadInput(f"--test-folder: data set {dataset.name} is published with a test split")
    if study.pixel_range is not None and not dataset.own_archive:
        raise BadInput(f"--pixel-range: data set {dataset.name} is published, in 8 bits; leave it out")
    if study.test_all and dataset.test_all is None:
        raise _nothing_left(dataset.name)
    if dataset.own_archive:
        need_pillow(f"data set {dataset.name}")
        from runner.data.cats_dogs import read_cats_dogs  # a container image has no Pillow

        images = read_cats_dogs(dataset, folder, study.test_all, study.pixel_range)
        return _of_images(images), images
    return (dataset.test_all if study.test_all and dataset.test_all else dataset), None


def _nothing_left(name: str) -> BadInput:
    having = ", ".join(each.name for each in DATASETS.values() if each.test_all)
    return BadInput(f"--test-all: data set {name} has no images left over; these have some: {having}")


def _of_images(images: OwnImages) -> Dataset:
    labels = images.labels
    return Dataset(images.name, "", len(labels["train"]), len(labels["test"]), images.classes, _unread)


def check(study: Study, dataset: Dataset, images: OwnImages | None, workload: Workload, own_code: bool) -> None:
    """Raises BadInput where its workload or batch sizes do not match the images.

    With `own_code`, that code gives the logits, not the workload.
    """
    if not own_code and dataset.classes > workload.classes:
        advice = "" if images is None else shift_advice(images.labels["train"], workload.classes)
        raise BadInput(
            f"data set {dataset.name} has {dataset.classes} classes, more than the {workload.classes} that workload "
            f"{workload.name} has{advice}"
        )
    shape = workload.input_shape
    if (images is not None or study.test_all or study.fit) and (len(shape) != 3 or shape[2] not in (1, 3)):
        raise BadInput(f"workload {workload.name} takes {shape}; pictures have 1 channel or 3")
    check_last_batch(study, dataset)


def check_last_batch(study: Study, dataset: Dataset) -> None:
    """Raises BadInput where dropping the last batch would leave nothing to train on."""
    times = study.accumulate * study.devices
    if study.last_batch == "drop" and times * max(study.batch_sizes) > dataset.train_count:
        accumulated = f"{times} x " if times > 1 else ""
        raise BadInput(
            f"batch size {accumulated}{max(study.batch_sizes)} is larger than the training split of {dataset.name} "
            f"({dataset.train_count} images) and last_batch is drop: nothing would be trained"
        )


def describe_large_batches(study: Study, dataset: Dataset) -> str:
    """Return that an epoch holds no full batch of some sizes; "" if each size has one."""
    times = study.accumulate * study.devices
    larger = [str(times * size) for size in study.batch_sizes if times * size > dataset.train_count]
    if not larger:
        return ""
    subject = f"batch sizes {', '.join(larger)} are" if len(larger) > 1 else f"batch size {larger[0]} is"
    return (
        f"data set {dataset.name}: {subject} larger than its {dataset.train_count} training images: an epoch is one "
        f"batch of {dataset.train_count}, and the steady window repeats images"
    )


def shift_advice(labels: NDArray[Any], outputs: int) -> str:
    """Return advice to subtract an offset if labels then fit the network's outputs; "" if they would not."""
    low, high = int(labels.min()), int(labels.max())
    if not low > 0 or high - low >= outputs:
        return ""
    return f"; its labels are {low} to {high}: subtract {low} so that they are 0 to {high - low}"


def _unread(folder: Path) -> tuple[Split, Split]:
    """Stand-in reader for custom images, which are passed on as files; it raises DataError."""
    raise DataError("these images are not decoded yet")


def find_data_dir(folder: Path | None) -> Path | None:
    """Return the requested folder, or else that of the variable."""
    variable = os.environ.get(DATA_VARIABLE)
    return folder or (Path(os.path.expanduser(variable)) if variable else None)


def need_given_files(folder: Path, dataset: Dataset) -> None:
    """Raises DataError if a file of the data set is missing in the folder that was given: nothing is fetched there."""
    if missing := [path for file in dataset.files if not (path := folder / file.path).is_file()]:
        given = f"unset {DATA_VARIABLE}" if folder == find_data_dir(None) else "leave out --data-dir"
        raise DataError(f"data file {missing[0]} is missing: put it there, or {given} to download it")


def refuse_data_dir(folder: Path | None, study: Study) -> None:
    """Raises BadInput for a folder of published files where every data set is the user's own, named by its path."""
    names = [part.dataset for part in study.parts.values()]
    if folder is not None and all(map(is_path, names)):
        raise BadInput(
            f"--data-dir {folder}: is for published files, but --dataset {names[0]} is your own; leave it out"
        )


def need_files(folder: Path | None, dataset: Dataset) -> None:
    """Raises BadInput in a container image that was given none of the files that the data set has."""
    if dataset.files and description.IMAGE_VARIABLE in os.environ and not folder:
        raise BadInput(f"--dataset {dataset.name}: give the image its files: -v DIR:/data:ro -e {DATA_VARIABLE}=/data")


IMAGES_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")  # it appears in file names
AS_IS = ImageChoices()


def find_images(path: Path, asked: ImageChoices = AS_IS) -> OwnImages:
    """Return the data set of this folder or array file. Raises DataError."""
    if path.suffix == ".npz" and path.is_file():
        if asked.test_folder is not None:
            raise DataError(f"data set {shown(str(path))}: --test-folder: an array file has no folders")
        return read_archived_images(_checked(path, path.stem), path, asked.pixel_range)
    if path.is_dir():
        need_pillow(f"data set {shown(str(path))}")
        from runner.data.folder_images import read_folder  # a container image has no Pillow

        return read_folder(_checked(path, Path(os.path.abspath(path)).name), path, asked)
    what = "a file, but not .npz" if path.is_file() else "not a folder or .npz file" if path.exists() else "not found"
    raise DataError(f"data set {shown(str(path))}: {what}; name a folder with train/CLASS/ in it, or a .npz file")


def _checked(path: Path, name: str) -> str:
    if not IMAGES_NAME.fullmatch(name):
        rule = f"its name may only have A-Z, a-z, 0-9, ., _ and -, at most 41 characters: {shown(name)!r}"
        raise DataError(f"data set {shown(str(path))}: {rule}")
    if name in DATASETS:
        raise DataError(f"data set {shown(str(path))}: {name} is a published data set; give yours another name")
    return name
