"""python -m adapters.worker [--attended] JOB_DIR: the only entry point of every worker.

It reads job.json, does the work of its kind and appends events to events.jsonl with the time of the monotonic clock.
Exit code 0 = the last event says how it ended. With --attended it begins when a line comes through standard input, and
ends with that.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import cast

from adapters.base import Adapter, Unsupported
from adapters.worker import (
    first_probe,
    memory_steps,
    noise_steps,
    refused_memory,
    steps,
    trial,
)
from adapters.worker.event_log import EventLog, in_a_line
from workloads.lifeline import ATTENDED, begin
from workloads.records.events import Event
from workloads.records.files import COMPILED_FOLDER, EVENTS_FILE, JOB_FILE
from workloads.records.job import Job, Kind
from workloads.records.status import Status

# Each takes the adapter, the job, its folder and the log, writes every event, and raises what the adapter raises.
KINDS: dict[Kind, Callable[[Adapter, Job, Path, EventLog], None]] = {
    Kind.TRIAL: trial.run,
    Kind.PROBE: first_probe.run,
    Kind.MEMORY: memory_steps.run,
    Kind.NOISE: noise_steps.run,
    Kind.STEPS: steps.run,
    Kind.BLOCKS: steps.run_blocks,
}
# What CUDA says to a build for other cards: its runtime, and its driver as XLA reports it.
NO_CODE = ("no kernel image is available for execution on the device", "CUDA_ERROR_NO_BINARY_FOR_GPU")


def main(folder: Path) -> bool:
    """Do the work of one process and record any error that the framework raises; return True if it may end at once.
    Custom code may have something to do at its end, unless it ran out of memory.
    """
    job = Job.from_json(json.loads((folder / JOB_FILE).read_text(encoding="utf-8")))
    events = EventLog(folder / EVENTS_FILE)
    events.write(Event.STARTED)
    adapter: Adapter | None = None
    try:
        adapter = adapter_for(job.trial.cell.column.framework, job.trial.placement.devices)
        events.write(Event.IMPORTED)
        KINDS[job.kind](adapter, job, folder, events)
    except Unsupported as error:
        events.write(Event.ENDED, status=Status.UNSUPPORTED, reason=str(error))
    except Exception as error:  # noqa: BLE001  # whatever a framework raises becomes a row with its reason
        traceback.print_exc()
        if culprit := refused_memory.culprit_of(error, adapter, job.trial):
            memory = refused_memory.refused(error, job.trial.placement.device)
            events.write(Event.ENDED, status=Status.OUT_OF_MEMORY, reason=in_a_line(culprit), memory=memory)
            return True
        if any(words in str(error) for words in NO_CODE):
            reason = f"this build has no code for this GPU: {in_a_line(error)}"
            events.write(Event.ENDED, status=Status.UNSUPPORTED, reason=reason)
        else:
            events.write(Event.ENDED, status=Status.FAILED, reason=in_a_line(error))
    finally:
        shutil.rmtree(folder / COMPILED_FOLDER, ignore_errors=True)
    return job.trial.task.own_code is None


def adapter_for(framework: str, devices: int) -> Adapter:
    """Return the adapter of one device, or of several that train one model. Raises Unsupported, and import errors."""
    if devices == 1:
        module = importlib.import_module(f"adapters.{framework}.adapter")
        return cast(Adapter, module.Adapter())
    if importlib.util.find_spec(f"adapters.{framework}.data_parallel") is None:
        raise Unsupported(f"{framework} has no adapter for several devices (adapters/{framework}/data_parallel.py)")
    module = importlib.import_module(f"adapters.{framework}.data_parallel")
    return cast(Adapter, module.DataParallel(devices))


def end_at_once() -> None:
    """End the process. All output is in the log; the kernel frees the rest.

    Shut down in order, PyTorch and TensorFlow take most of a second, and a framework without memory crashes, or hangs.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # output of a framework's own code
    os._exit(0)


if __name__ == "__main__":
    begin(ATTENDED in sys.argv[1:-1])
    if main(Path(sys.argv[-1]).resolve()):
        end_at_once()
