"""The events that a worker writes while it runs, and the memory counts in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .record import Word


class Event(Word):
    """Events in events.jsonl, in the order in which the worker writes them; each with `t_ns` of the monotonic clock."""

    STARTED = "started"
    IMPORTED = "imported"
    OPENED = "opened"
    CONTEXT_SAMPLED = "context_sampled"  # on a GPU: the sampler has had time to see the bare context's memory
    LOADED = "loaded"
    PROBED = "probed"  # and finished: the gate's worker does nothing else
    MEMORY_TOLD = "memory_told"  # for one batch size, after `built`: by the memory worker, which does nothing else
    PRODUCT_TIMED = "product_timed"  # after those: how fast the framework multiplies matrices
    NOISE_MEASURED = "noise_measured"  # at one point of the training at which weights were saved: by the noise worker
    WEIGHTS_HELD = "weights_held"  # before those, if it trained itself: they are in its folder
    FINDER_LOOKED = "finder_looked"  # the same: at one window of consecutive batches
    BUILT = "built"
    FIRST_STEP = "first_step"
    WARMED_UP = "warmed_up"
    EPOCH_TRAINED = "epoch_trained"
    EPOCH_AUGMENTED = "epoch_augmented"  # its duration; for a trial that augments its images
    EPOCH_EVALUATED = "epoch_evaluated"
    EVALUATED_AGAIN = "evaluated_again"  # after the last of those, by custom code: some images' logits once more
    WINDOW_STARTED = "window_started"
    WINDOW_ENDED = "window_ended"
    FINISHED = "finished"  # everything timed or sampled is done; what follows is optional
    ALLOCATOR_COUNTED = "allocator_counted"  # the framework's bytes by kind, or the reason why there are none
    HOST_COUNTED = "host_counted"  # the kernel's count
    WINDOW_SETTLED = "window_settled"  # right after `finished`: how long weights were waited for
    END_PROBED = "end_probed"  # the last: the gate's second probe; what it saved is in the trial's folder
    TRAINED_AGAIN = "trained_again"  # in its place, by custom code: its first losses from the same seed once more
    ENDED = "ended"  # not finished: carries status and reason


class MemoryBound(Word):
    """The limit that refused memory, in `ended` of a worker that ran out of it."""

    DATA = "data_segment"  # RLIMIT_DATA
    ADDRESS_SPACE = "address_space"  # RLIMIT_AS
    CONTROL_GROUP = "control_group"
    MACHINE = "machine"
    DEVICE = "device"  # the GPU


Events = list[dict[str, Any]]


@dataclass(frozen=True)
class Evaluation:
    """Test loss and accuracy after one epoch, as the runner computed them; a loss that is not finite is None."""

    epoch: int
    test_loss: float | None
    test_accuracy: float  # fraction, 0..1
    # Of custom code's last one: largest difference of EVALUATED_AGAIN from these logits, over the largest of them.
    apart: float | None = None


def add_evaluations(events: Events, evaluations: Iterable[Evaluation] | None) -> Events:
    """Return the events, each `epoch_evaluated` with its test loss and accuracy. Without evaluations, as of trials of
    earlier versions, the events stay: there the worker had computed both.
    """
    if evaluations is None:
        return events
    found = {
        each.epoch: {"test_loss": each.test_loss, "test_accuracy": each.test_accuracy, "apart": each.apart}
        for each in evaluations
    }
    without = {"test_loss": None, "test_accuracy": None, "apart": None}  # the worker's word does not count
    return [
        event | found.get(event.get("epoch", -1), without) if event["event"] == Event.EPOCH_EVALUATED else event
        for event in events
    ]


Count = int | str  # bytes, or the reason why they are unknown

# What a framework's allocator holds while it trains; together they are its peak.
PEAK_PARTS = (
    "parameters",
    "statistics",  # BatchNorm's
    "gradients",
    "optimizer",
    "dataset",  # the training split, if the feed keeps it on the device
    "inputs",  # one batch
    "activations",  # beyond all these, in use between forward and backward
    "workspace",  # temporaries, and what the framework keeps for them
)
