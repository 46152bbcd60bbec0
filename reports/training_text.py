"""Describe an update rule and an augmentation in words."""

from __future__ import annotations

from dataclasses import asdict

from workloads.records.job import Placement, Task
from workloads.spec import OptimizerSpec

# For each update rule: the settings that it uses, and its label.
SETTINGS = {
    "sgd": ("weight_decay",),
    "momentum": ("momentum", "weight_decay"),
    "nesterov": ("momentum", "weight_decay"),
    "adam": ("beta1", "beta2", "epsilon"),
    "adamw": ("beta1", "beta2", "epsilon", "weight_decay"),
    "rmsprop": ("rho", "epsilon"),
}
OF_ALL = ("schedule", "warm_up", "scale", "base_batch_size")
SCALED = {"linear": " x {}batch size / {}", "sqrt": " x sqrt({}batch size / {})"}
SCHEDULED = {"one-cycle": " (PyTorch's OneCycleLR with cycle_momentum=False)"}
MADE_ONCE = {
    "copy": "each training image twice, so twice the updates",
    "zoom-copy": "each training image, and once more at five quarters of its size, cut to its top left; so twice the "
    "updates",
}
LABELS = {
    "sgd": "SGD",
    "momentum": "SGD with momentum {momentum}",
    "nesterov": "SGD with Nesterov momentum {momentum}",
    "adam": "Adam ({beta1}, {beta2}, epsilon {epsilon})",
    "adamw": "AdamW ({beta1}, {beta2}, epsilon {epsilon})",
    "rmsprop": "RMSprop ({rho}, epsilon {epsilon})",
}


def in_use(optimizer: OptimizerSpec) -> OptimizerSpec:
    """Return the optimizer with the settings that its rule ignores at their defaults."""
    settings = {name: getattr(optimizer, name) for name in (*SETTINGS[optimizer.name], *OF_ALL)}
    return OptimizerSpec(optimizer.name, optimizer.learning_rate, **settings)


def optimizer_label(optimizer: OptimizerSpec, parts: int = 1) -> str:
    """Describe the rule and the numbers that it uses; `parts`: batches per update."""
    times = f"{parts} x " if parts > 1 else ""
    scaled = SCALED.get(optimizer.scale, "").format(times, optimizer.base_batch_size)
    words = [LABELS[optimizer.name].format(**asdict(optimizer)), f"learning rate {optimizer.learning_rate}{scaled}"]
    if optimizer.schedule != "constant":
        words.append(f"{optimizer.schedule} schedule{SCHEDULED.get(optimizer.schedule, '')}")
    if optimizer.warm_up:
        steps = "% of the steps" if optimizer.warm_up < 1 else " steps"
        words.append(f"warm-up of {optimizer.warm_up * (100 if optimizer.warm_up < 1 else 1):g}{steps}")
    if optimizer.weight_decay and "weight_decay" in SETTINGS[optimizer.name]:
        words.append(f"weight decay {optimizer.weight_decay}")
    return ", ".join(words)


def augmentation_label(task: Task) -> str:
    """Describe how images are augmented; if in each epoch, also say if the steady window's speed includes the cost."""
    if task.augment in MADE_ONCE:
        return f"{task.augment}: {MADE_ONCE[task.augment]}"
    if task.feed == "device":
        return f"{task.augment}, before each epoch: the speed is without its cost"
    return f"{task.augment}, in every step: the speed is with its cost"


def devices_label(placement: Placement) -> str:
    """Say how many devices train one model, and what a device is on a CPU."""
    words = f"{placement.devices} in data parallel, batch sizes are a device's"
    if placement.device_kind == "cuda":
        return words
    each = placement.device_threads
    shared = ", which share cores" if placement.devices > placement.threads else ""
    return f"{words}; {each} thread{'s' * (each > 1)} each{shared}"


def accumulation_label(task: Task) -> str:
    """Say how many batches make up an update."""
    return f"{task.accumulate} batches an update"
