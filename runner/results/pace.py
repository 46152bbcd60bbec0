"""The figures of a trial's speed beyond its window: of whole epochs, and of the work that the layers need."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from runner.results.memory import NOT_ASKED, MemoryAccount
from runner.results.window import explain_uncounted, make_unknown
from workloads.records.figures import (
    EPOCH_TIME,
    EVALUATION_SPEED,
    PRODUCT,
    PRODUCT_BY_CPU_TIME,
    PRODUCT_SHARE,
    SPEED,
    WORK,
    Figure,
)
from workloads.records.job import TrialSpec
from workloads.records.result import Epoch
from workloads.spec import Workload
from workloads.statistics import count_images

NO_EPOCH = "there is no epoch after the first, which compiles and warms up"


def compute_pace(
    spec: TrialSpec,
    workload: Workload | None,
    epochs: Sequence[Epoch],
    figures: Mapping[str, Figure],
    account: MemoryAccount | None,
) -> dict[str, Figure]:
    """Return EPOCH_TIME, EVALUATION_SPEED, WORK, PRODUCT, PRODUCT_BY_CPU_TIME, PRODUCT_SHARE; `figures` has the SPEED
    of the window, `account` the product's speed.
    """
    account = NOT_ASKED if account is None else account
    work, product = _work(spec, workload, figures[SPEED.name]), _product(account)
    return {
        EPOCH_TIME.name: _epoch_time(epochs[1:]),
        EVALUATION_SPEED.name: _evaluation_speed(epochs[1:], count_images(spec.task.dataset, spec.task.source, "test")),
        WORK.name: work,
        PRODUCT.name: product,
        PRODUCT_BY_CPU_TIME.name: _product_by_cpu_time(account, product),
        PRODUCT_SHARE.name: _share(work, product),
    }


def _epoch_time(epochs: Sequence[Epoch]) -> Figure:
    source = "worker: training of the epochs after the first, without their evaluation"
    if not epochs:
        return make_unknown(source, NO_EPOCH)
    return Figure(statistics.mean(epoch.train_s for epoch in epochs), source, len(epochs))


def _evaluation_speed(epochs: Sequence[Epoch], images: int | None) -> Figure:
    source = "worker: logits of the test split in batches, and their losses by numpy, in the epochs after the first"
    if not epochs:
        return make_unknown(source, NO_EPOCH)
    if images is None:
        return make_unknown(source, "the number of test images is unknown")
    seconds = sum(epoch.evaluate_s for epoch in epochs)
    if seconds <= 0:
        return make_unknown(source, "the evaluations took no time")
    return Figure(images * len(epochs) / seconds, source, len(epochs))


def _work(spec: TrialSpec, workload: Workload | None, speed: Figure) -> Figure:
    source = "speed of the steady window x multiply-adds of the layers, two operations each, forward and twice backward"
    if workload is None or spec.task.own_code:
        return make_unknown(source, explain_uncounted(spec))
    if speed.value is None:
        return make_unknown(source, speed.reason or "there is no speed")
    return Figure(speed.value * workload.step_flop, source)


def _product(account: MemoryAccount) -> Figure:
    source = "memory worker: dense layers in evaluation, in the trial's precision, the fastest of its calls"
    told = account.get("product")
    if told is None:
        return make_unknown(source, str(account.get("reason", "its memory worker ended before, or did not report it")))
    if "flop_per_s" not in told:
        return make_unknown(source, told["reason"])
    return Figure(told["flop_per_s"], source, told.get("calls"))


def _product_by_cpu_time(account: MemoryAccount, product: Figure) -> Figure:
    source = "memory worker: the same in the least processor time of a call, divided among the cores of its threads"
    if product.value is None:
        return make_unknown(source, product.reason or "")
    told = account["product"].get("cpu_time_flop_per_s")
    if told is None:
        return make_unknown(source, "not measured: on a GPU the processor waits, and older memory workers lack it")
    return Figure(told, source, product.samples)


def _share(work: Figure, product: Figure) -> Figure:
    source = "work of the layers over the fastest product of matrices"
    if work.value is None or product.value is None:
        return make_unknown(source, work.reason or product.reason or "")
    return Figure(100 * work.value / product.value, source)
