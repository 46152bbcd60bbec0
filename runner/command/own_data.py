"""Images of one's own on their way to workers: from a checked request to arrays, and to a network that takes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from runner.command.cli import Request
from runner.data import cache, own
from runner.data.cache import Cached, Wanted
from runner.data.own import SPLITS, OwnImages, Size
from workloads.datasets import DataError, Dataset, Split
from workloads.layers import Resize, Shape
from workloads.records.job import Fit, ImageSource
from workloads.spec import Workload

DEFAULT_FIT: Fit = "stretch"
RESIZE = "resize_images"  # the layer that the runner puts in front
CACHE = "cache"  # in the project's data folder


def prepared(request: Request, console: Console) -> Request:
    """With the images' real counts, what was made of them, and the network that takes them at the size at which they
    are stored, of each series; a plan decodes nothing. Raises DataError, OSError.
    """
    made: dict[Any, Request] = {}
    series: dict[str, Request] = {}
    for name, part in request.series.items():
        key = part.study.images, part.workload
        if key not in made:
            made[key] = _prepared(part, console)
        known = {each: getattr(made[key], each) for each in ("dataset", "source", "workload", "arrays")}
        series[name] = replace(part, **known)
    return replace(request, series=series) if series else _prepared(request, console)


def _prepared(request: Request, console: Console) -> Request:
    """Of one that has no series."""
    if request.images is None:
        return _published(request) if request.study.fit or request.study.test_all else request
    images, fit = request.images, request.study.fit or DEFAULT_FIT
    for note in images.notes:
        console.print(f"data set {images.name}: {note}")
    survey = images.survey(console)
    if not request.study.skip_unreadable:
        cache.refuse(images.name, images.listed(survey.unreadable))
    if not survey.sizes:
        raise DataError(f"data set {images.name}: no image of it can be decoded")
    rows, columns = own.stored_size(survey.sizes, request.workload.input_shape, fit)
    wanted = Wanted(
        images, survey, (rows, columns, request.workload.input_shape[2]), fit, request.study.skip_unreadable
    )
    folder = request.project.data / CACHE
    if request.plan_only:
        cached = cache.stored(folder / cache.key(images, survey, wanted.shape, fit))
    else:
        cached = cache.arrays(wanted, folder, console)
    if cached and not wanted.skip:
        cache.refuse(images.name, cached.unreadable)
    return _with(request, wanted, cached)


def _with(request: Request, wanted: Wanted, cached: Cached | None) -> Request:
    """The request with these arrays, or with what a plan knows of them."""
    images, survey = wanted.images, wanted.survey
    counts, skipped = {split: len(images.labels[split]) for split in SPLITS}, len(images.listed(survey.unreadable))
    for split, _ in survey.unreadable:
        counts[split] -= 1
    if cached is not None:
        counts, skipped = cached.counts, len(cached.unreadable)
        _check_classes(images, cached)
    dataset = replace(request.dataset, train_count=counts["train"], test_count=counts["test"])
    source = _source(request, wanted.shape, wanted.fit, dataset)
    rows, columns, _ = wanted.shape
    return replace(
        request,
        dataset=dataset,
        source=replace(source, content=survey.content, drawn_test=images.drawn_test, skipped=skipped),
        workload=resized(request.workload, (rows, columns)),
        arrays=None if cached is None else cached.files,
    )


def _check_classes(images: OwnImages, cached: Cached) -> None:
    """Raises DataError where leaving out left a class without an image to train on, or nothing to test with."""
    _, labels = cached.split("train")
    if cached.counts["test"] == 0 or len(set(labels.tolist())) < len(set(images.labels["train"].tolist())):
        raise DataError(f"data set {images.name}: a class, or the test, has no image that can be decoded")


def _published(request: Request) -> Request:
    """A published data set that is brought to the network by interpolation, too, or has another test split."""
    dataset, fit = request.dataset, request.study.fit or DEFAULT_FIT
    size = dataset.image_shape[0], dataset.image_shape[1]
    stored = own.stored_size([size], request.workload.input_shape, fit)
    shape = (*stored, request.workload.input_shape[2])

    def read(folder: Path) -> tuple[Split, Split]:
        train, test = (Split(own.in_shape(split.images, shape, fit), split.labels) for split in dataset.read(folder))
        return train, test

    source, workload = _source(request, shape, fit, dataset), resized(request.workload, stored)
    return replace(request, dataset=replace(dataset, read=read), source=source, workload=workload)


def _source(request: Request, shape: Shape, fit: Fit, dataset: Dataset) -> ImageSource:
    """Of a published data set that is stored at this shape."""
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


def resized(workload: Workload, size: Size) -> Workload:
    """The network that takes images of this size, and enlarges them on the device where its own input is larger."""
    rows, columns, channels = workload.input_shape
    if size == (rows, columns):
        return workload
    names, name = {layer.name for layer, _ in workload.walk()}, RESIZE
    while name in names:
        name += "_"
    return replace(workload, input_shape=(*size, channels), layers=(Resize(name, rows, columns), *workload.layers))
