"""The names of all checks, and their groups."""

from __future__ import annotations

from .record import Word

JUDGE = "referee"  # in `Check.against`, next to the names of frameworks


class CheckName(Word):
    """Claim that a check tests."""

    SPEED_IDENTITY = "images/s x step time = batch size"
    STEPS_IDENTITY = "steps of an epoch"
    EPOCHS_SPEED = "epochs train at the window's speed"
    WINDOW_SPEED = "the window trains no faster than the epochs"
    LONG_ENOUGH = "window is long enough"
    COVERED = "samples cover the window"
    INCREASING = "samples' times increase"
    NOT_ALL_ZERO = "not all zero"
    BUSY_ABOVE_ALL = "busy mean >= mean of all samples"
    PROCESS_IN_DEVICE = "process memory <= device memory"
    ENERGY = "energy by counter = integrated power"
    POWER_LIMITED = "mean power <= enforced limit"
    KEPT_PACE = "the driver's clock kept pace"
    IN_SPLIT = "batch size <= training split"
    PRECISION = "computes in the precision asked for"
    ADAM = "Adam's state = 2 x trainable bytes"
    SLOTS = "optimizer state = its slots x trainable bytes"
    PARAMETERS = "parameters are the workload's bytes"
    ACTIVATIONS = "activations hold what backward needs"
    THREADS = "as many threads as allotted"
    CORES = "no more cores than allotted"
    NEEDED = "its speed took the CPU time that it needs"
    PROCESSES = "the worker's memory is that of all its processes"
    TIMES = "the worker's times are the runner's"
    CALLS_ADD_UP = "calls add up to the window"
    NO_STALL = "no stall in the window"
    NOT_THROTTLED = "no CPU quota withheld time in the window"
    ENDED_WELL = "the worker ended well"
    ALONE = "alone on the device"
    GATE = "computes what the others compute"
    SOURCE = "the imported network is the user's model"
    POSSIBLE = "its speed is possible"
    NOTHING_LEFT = "nothing was left to do behind the window"
    END_ANSWERED = "its end answers the probe"
    END_EVALUATION = "evaluation at its end = the referee's"
    END_LOSSES = "losses at its end = the referee's"
    END_UPDATES = "updates at its end = the referee's"
    LAST_EVALUATION = "its last evaluation = the referee's"
    LAST_LOSS = "its last loss = the referee's"
    MIDDLE = "updates in its middle = the referee's"
    MASKS = "masks are drawn at their rate"
    EPOCHS_AGREE = "epochs are as the others'"
    SAME_LOSSES = "the same seed gives the same losses"  # of custom code, as the next
    OWN_EVALUATION = "evaluates each test image by itself"


# A trial that miscounts has no speed and no accuracy. One in another precision belongs to another column. A window that
# is faster than the epochs of the same trial did other work. A trial with false times has no speed, nor one whose work
# was done on other cores, or by processes whose memory no figure includes.
COUNTS = (
    CheckName.SPEED_IDENTITY, CheckName.STEPS_IDENTITY, CheckName.WINDOW_SPEED, CheckName.TIMES, CheckName.CALLS_ADD_UP,
    CheckName.PRECISION, CheckName.CORES, CheckName.NEEDED, CheckName.PROCESSES,
)  # fmt: skip
# Those of them that a process stopped for a moment can fail. A disturbed trial has no speed either way, and is tried
# once more.
DISTURBABLE = (CheckName.TIMES, CheckName.CALLS_ADD_UP)
# Findings of the gate beyond a framework's first probe. A trial without one was not checked so, and one that fails one
# is not a valid measurement.
LATE_NAMES = (
    CheckName.POSSIBLE, CheckName.NOTHING_LEFT, CheckName.END_ANSWERED, CheckName.END_EVALUATION,
    CheckName.END_LOSSES, CheckName.END_UPDATES, CheckName.LAST_EVALUATION, CheckName.LAST_LOSS, CheckName.MIDDLE,
    CheckName.MASKS,
)  # fmt: skip
OF_OWN_CODE = (CheckName.SAME_LOSSES, CheckName.OWN_EVALUATION)
NO_LONGER_MADE = (CheckName.EPOCHS_AGREE,)  # trials of earlier versions have it, until they are judged again
OF_THE_RUN_ALONE = (
    CheckName.PRECISION, CheckName.TIMES, CheckName.CALLS_ADD_UP, CheckName.ENDED_WELL, CheckName.ALONE, CheckName.GATE,
    CheckName.SOURCE, *LATE_NAMES, *NO_LONGER_MADE,
)  # fmt: skip
MADE_AGAIN = tuple(name for name in CheckName if name not in OF_THE_RUN_ALONE)  # from the stored files
