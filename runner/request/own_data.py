"""Prepare custom images for workers: from a checked request to arrays, and to a network that takes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from runner.data import cache, own
from runner.data.cache import CACHE_ADVICE, CACHE_VARIABLE, Cached, Wanted
from runner.data.own import SPLITS, OwnImages, Size, listed
from runner.project import XDG_VARIABLE, find_user_cache
from runner.request import data_sets
from runner.request.cli import Request
from runner.request.parser import BadInput
from workloads.datasets import DataError, Dataset, Split
from workloads.layers import Resize, Shape
from workloads.records.files import CACHE_FOLDER
from workloads.records.job import AS_PUBLISHED, Fit, ImageSource
from workloads.spec import Workload
from workloads.words import format_count

DEFAULT_FIT: Fit = "stretch"
RESIZE = "resize_images"  # the layer that the runner adds in front


def prepare_images(request: Request, console: Console) -> Request:
    """Return the request with the images' counts, arrays and findings, and a network that takes them, for each series.

    The network takes the images at the size at which they are stored. A plan decodes what a run would. Raises BadInput,
    DataError, OSError.
    """
    made: dict[Any, Request] = {}
    series: dict[str, Request] = {}
    for name, part in request.series.items():
        key = part.study.images, part.workload
        if key not in made:
            made[key] = _prepared(part, console)
        known = {each: getattr(made[key], each) for each in ("dataset", "source", "workload", "arrays")}
        series[name] = replace(part, **known)
    prepared = replace(request, series=series) if series else _prepared(request, console)
    larger = set[str]()
    for part in prepared.parts.values():  # fewer images may be left than were counted before they were decoded
        data_sets.check_last_batch(part.study, part.dataset)
        larger.add(data_sets.describe_large_batches(part.study, part.dataset))
    for line in sorted(larger - {""}):
        console.print(line)
    return prepared


def _prepared(request: Request, console: Console) -> Request:
    """Prepare a request that has no series."""
    if request.images is None:
        return _published(request) if request.study.fit or request.study.test_all else request
    images, fit, skip = request.images, request.study.fit or DEFAULT_FIT, request.study.skip_unreadable
    folder = find_cache_folder(request)
    survey = images.survey(console)
    if not survey.sizes:
        reasons = [] if skip else images.listed(survey.unreadable)
        cache.refuse(images.name, reasons, folder)
        raise DataError(f"data set {images.name}: none of its images can be decoded")
    channels = request.workload.input_shape[2]
    shape = (*_choose_size(request, survey.sizes, fit), channels)
    wanted = Wanted(images, survey, shape, fit, skip)
    cached = cache.provide_arrays(wanted, folder, console)
    if not skip:
        cache.refuse(images.name, cached.unreadable, folder)
    _check_classes(images, cached)
    for line in describe_images(images, cached):
        console.print(f"data set {images.name}: {line}")
    return _with(request, wanted, cached)


def find_cache_folder(request: Request) -> Path:
    """Return the folder for decoded images: the user's cache, or else one in the results folder.

    The folder is created and tested. Raises BadInput where it cannot be written.
    """
    if shared := os.environ.get(CACHE_VARIABLE):
        folder, told = Path(os.path.expanduser(shared)), CACHE_VARIABLE
    elif general := find_user_cache():
        folder, told = general, XDG_VARIABLE
    else:
        folder, told = request.results / CACHE_FOLDER, "--results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        where = f"{folder} ({told}): {error.strerror or error}"
        raise BadInput(f"decoded images cannot be kept in {where}; {CACHE_ADVICE}") from error
    return folder


def _with(request: Request, wanted: Wanted, cached: Cached) -> Request:
    """Return the request with these arrays."""
    images = wanted.images
    dataset = replace(request.dataset, train_count=cached.counts["train"], test_count=cached.counts["test"])
    source = replace(
        _source(request, wanted.shape, wanted.fit, dataset),
        content=wanted.survey.content,
        drawn_test=images.drawn_test,
        skipped=len(cached.unreadable),
        pixel_range=images.pixel_range,
        test_folder=images.test_folder,
        findings=cached.findings,
    )
    rows, columns, _ = wanted.shape
    workload = resize_workload(request.workload, (rows, columns))
    return replace(request, dataset=dataset, source=source, workload=workload, arrays=cached.files)


def _check_classes(images: OwnImages, cached: Cached) -> None:
    """Raises DataError where leaving out images left a class without training images, or left no test images."""
    lost = set(images.labels["train"].tolist()) - set(cached.split("train")[1].tolist())
    what = [f"class {images.class_name(label)}" for label in sorted(lost)]
    what += ["the test"] if cached.counts["test"] == 0 else []
    if what:
        raise DataError(f"data set {images.name}: no image of {listed(what)} can be decoded")


def _choose_size(request: Request, sizes: Iterable[Size], fit: Fit) -> Size:
    """Return the size at which images are stored: own code and an imported network's source enlarge nothing."""
    rows, columns, _ = target = request.workload.input_shape
    if request.models or (request.imported is not None and request.imported.origin is not None):
        return rows, columns
    return own.choose_stored_size(sizes, target, fit)


def _published(request: Request) -> Request:
    """Return the request for a published data set that is interpolated or has another test split."""
    dataset, fit = request.dataset, request.study.fit
    if fit is None:  # its training images and the network stay as they are without --test-all
        return replace(request, source=_source(request, request.workload.input_shape, AS_PUBLISHED, dataset))
    size = dataset.image_shape[0], dataset.image_shape[1]
    stored = _choose_size(request, [size], fit)
    shape = (*stored, request.workload.input_shape[2])

    def read(folder: Path) -> tuple[Split, Split]:
        train, test = (
            Split(own.fit_to_shape(split.images, shape, fit), split.labels) for split in dataset.read(folder)
        )
        return train, test

    source, workload = _source(request, shape, fit, dataset), resize_workload(request.workload, stored)
    return replace(request, dataset=replace(dataset, read=read), source=source, workload=workload)


def _source(request: Request, shape: Shape, fit: Fit | Literal[""], dataset: Dataset) -> ImageSource:
    """Return the source of a published data set that is stored at this shape."""
    rows, columns, _ = shape
    return ImageSource(
        content="",
        rows=rows,
        columns=columns,
        enlarged=(rows, columns) != request.workload.input_shape[:2],
        fit=fit,
        train=dataset.train_count,
        test=dataset.test_count,
        drawn_test=False,
        skipped=0,
    )


def resize_workload(workload: Workload, size: Size) -> Workload:
    """Return the network for images of this size. It enlarges them on the device where its own input is larger."""
    rows, columns, channels = workload.input_shape
    if size == (rows, columns):
        return workload
    names, name = {layer.name for layer, _ in workload.walk()}, RESIZE
    while name in names:
        name += "_"
    return replace(workload, input_shape=(*size, channels), layers=(Resize(name, rows, columns), *workload.layers))


def describe_images(images: OwnImages, cached: Cached) -> Iterator[str]:
    """Yield a line for each fact, each with the first image that shows it."""
    yield from images.notes
    if cached.unreadable:
        images_left_out = format_count(len(cached.unreadable), "image")
        yield f"{images_left_out} cannot be decoded and left out: {listed(cached.unreadable)}"
    yield from _without_image(images, cached)
    found, firsts, tested = cached.findings, cached.firsts, cached.counts["test"]
    if found.tested_on_trained:
        yield (
            f"{found.tested_on_trained:,} of {format_count(tested, 'image')} of the test are identical to training "
            f"images, so the accuracy shows what was memorised; the first: {firsts['tested_on_trained']}"
        )
    if found.two_labels:
        yield (
            f"{format_count(found.two_labels, 'image')} identical to one of another class, so one of the labels is "
            f"wrong; the first: {firsts['two_labels']}"
        )
    for split, count in (("train", found.repeated_train), ("test", found.repeated_test)):
        if count:
            first = firsts[f"repeated_{split}"]
            yield f"{split}: {format_count(count, 'image')} identical to an earlier one; the first: {first}"
    if found.faded:
        yield (
            f"{found.faded:,} of {format_count(sum(cached.counts.values()), 'image')} lost nearly all of their "
            f"contrast; the first: {firsts['faded']}; --pixel-range LOW HIGH sets which values become 0 and 255"
        )
    if found.dim:
        limit, all_images = firsts["dim"], format_count(found.dim, "image")
        yield (
            f"no value of {all_images} exceeds {limit} of 255, so the network gets almost black images; "
            f"--pixel-range 0 {limit} makes the highest value white"
        )


def _without_image(images: OwnImages, cached: Cached) -> Iterator[str]:
    """Yield a line for each split that lacks a class."""
    for split in SPLITS:
        there = set(cached.split(split)[1].tolist())
        if lacking := [images.class_name(label) for label in range(images.classes) if label not in there]:
            which = "class" if len(lacking) == 1 else f"{len(lacking):,} classes:"
            yield f"{split}: no image of {which} {listed(lacking)}"
