"""Words for the settings of a trial: its model, its images, its update rule, its devices."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from string import Formatter

from .networks import WORKLOADS
from .records import network
from .records.job import AS_PUBLISHED, ImageFindings, ImageSource, Placement, Task
from .spec import DECAYING, OptimizerSpec

OWN_CODE = "custom code, not compared"
IMAGE_FITS = {
    "stretch": "stretched, whatever their proportions",
    "crop": "the largest part in the middle",
    "pad": "all of it on black",
}
OF_ALL = ("schedule", "warm_up", "scale", "base_batch_size")  # settings that every update rule uses
LABELS = {  # of the rules, with the settings that each has of its own besides the weight decay
    "sgd": "SGD",
    "momentum": "SGD with momentum {momentum}",
    "nesterov": "SGD with Nesterov momentum {momentum}",
    "adam": "Adam ({beta1}, {beta2}, epsilon {epsilon})",
    "adamw": "AdamW ({beta1}, {beta2}, epsilon {epsilon})",
    "rmsprop": "RMSprop ({rho}, epsilon {epsilon})",
}
SCALED = {"linear": " x {}batch size / {}", "sqrt": " x sqrt({}batch size / {})"}
SCHEDULED = {"one-cycle": " (PyTorch's OneCycleLR with cycle_momentum=False)"}
MADE_ONCE = {
    "copy": "each training image twice, so twice the updates",
    "zoom-copy": "each training image, and once more at five quarters of its size, cut to its top left; so twice the "
    "updates",
}


def describe_model(task: Task) -> str:
    """Name of the model, with the note that must accompany it everywhere."""
    return f"{task.workload} ({OWN_CODE})" if task.own_code else task.workload


def describe_difference(task: Task) -> str:
    """Return how a network of the catalogue differs from the original of the same name; "" for any other."""
    return WORKLOADS[task.workload].differs if task.workload in WORKLOADS and not task.own_code else ""


def describe_own_network(task: Task) -> str:
    """Digest of a network that differs from the catalogue's network of that name; "" if it does not differ."""
    return "" if task.network == _of_catalogue(task.workload) else task.network


@cache  # a report asks for it twice per trial
def _of_catalogue(name: str) -> str:
    return network.digest(WORKLOADS[name]) if name in WORKLOADS else ""


def describe_images(source: ImageSource) -> str:
    """Count the images; for a custom data set, add their digest."""
    digest = f", digest {source.content}" if source.content else ""
    return f"{source.train} to train on and {source.test} to test with{digest}"


def describe_fit(source: ImageSource) -> str:
    """Say how the images were brought to the size in which they are stored, and whether they are enlarged later.

    "" for a published data set that is not interpolated.
    """
    if source.fit == AS_PUBLISHED:
        return ""
    enlarged = " and enlarged by the network's first layer, bilinear, on the device" if source.enlarged else ""
    how = IMAGE_FITS.get(source.fit, source.fit)
    return f"{source.fit} ({how}), bilinear, stored as {source.rows} x {source.columns}{enlarged}"


def describe_split(source: ImageSource) -> str:
    """Say where the test split of a custom data set comes from; "" for a published one."""
    if not source.content:
        return ""
    words = "one in five of each class, drawn by the runner" if source.drawn_test else "as given"
    return words + (f", in {source.test_folder}/" if source.test_folder else "")


def describe_range(source: ImageSource) -> str:
    """Say which values of the images' files became 0 and 255; "" for all of the file's type."""
    if source.pixel_range is None:
        return ""
    low, high = source.pixel_range
    return f"{low:g} becomes 0, {high:g} becomes 255"


def list_findings(found: ImageFindings) -> list[str]:
    """List findings of decoding in phrases; none if no image is doubtful."""
    phrases = {
        "of the test identical to training images": found.tested_on_trained,
        "identical to one of another class": found.two_labels,
        "of train identical to an earlier one": found.repeated_train,
        "of the test identical to an earlier one": found.repeated_test,
        "without nearly all of their files' contrast": found.faded,
        "with no value above an eighth of white": found.dim,
    }
    return [f"{count} {phrase}" for phrase, count in phrases.items() if count]


def list_doubts(source: ImageSource) -> str:
    """List what was found while decoding the images; "" if they were not examined, or no image is doubtful."""
    return ", ".join(list_findings(source.findings)) if source.findings else ""


def drop_unused(optimizer: OptimizerSpec) -> OptimizerSpec:
    """Return the optimizer with the settings that its rule ignores at their defaults."""
    own = [name for _, name, *_ in Formatter().parse(LABELS[optimizer.name]) if name]
    decay = ["weight_decay"] if optimizer.name in DECAYING else []
    settings = {name: getattr(optimizer, name) for name in (*own, *decay, *OF_ALL)}
    return OptimizerSpec(optimizer.name, optimizer.learning_rate, **settings)


def describe_optimizer(optimizer: OptimizerSpec, parts: int = 1) -> str:
    """Describe the rule and the numbers that it uses; `parts`: batches per update."""
    times = f"{parts} x " if parts > 1 else ""
    scaled = SCALED.get(optimizer.scale, "").format(times, optimizer.base_batch_size)
    words = [LABELS[optimizer.name].format(**asdict(optimizer)), f"learning rate {optimizer.learning_rate}{scaled}"]
    if optimizer.schedule != "constant":
        words.append(f"{optimizer.schedule} schedule{SCHEDULED.get(optimizer.schedule, '')}")
    if optimizer.warm_up:
        steps = "% of the steps" if optimizer.warm_up < 1 else " steps"
        words.append(f"warm-up of {optimizer.warm_up * (100 if optimizer.warm_up < 1 else 1):g}{steps}")
    if optimizer.weight_decay and optimizer.name in DECAYING:
        words.append(f"weight decay {optimizer.weight_decay}")
    return ", ".join(words)


def describe_augmentation(task: Task) -> str:
    """Describe how images are augmented; if in each epoch, also say if the steady window's speed includes the cost."""
    if task.augment in MADE_ONCE:
        return f"{task.augment}: {MADE_ONCE[task.augment]}"
    if task.feed == "device":
        return f"{task.augment}, before each epoch: the speed is without its cost"
    return f"{task.augment}, in every step: the speed is with its cost"


def describe_devices(placement: Placement) -> str:
    """Say how many devices train one model, and what a device is on a CPU."""
    words = f"{placement.devices} in data parallel, batch sizes are per device"
    if placement.device_kind == "cuda":
        return words
    each = placement.device_threads
    shared = ", which share cores" if placement.devices > placement.threads else ""
    return f"{words}; {each} thread{'s' * (each > 1)} each{shared}"
