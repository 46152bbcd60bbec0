"""The gate's evidence as it is stored in a probe's events and in results; validates any file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .end_evidence import TrialEnd
from .evidence import EVALUATED_STEPS, PROBE_STEPS, Evidence, Fingerprint
from .validation import numbers, record

FEWEST_VALUES = 2  # of a fingerprint: at least a norm and a projection
LARGEST = 1e100  # its square is finite, too


def refuse_evidence(data: dict[str, Any], name: str) -> None:
    """Raise ValueError, with `name` before the reason, for evidence that the gate cannot compare."""
    for probe in record(numbers(data), Evidence, name).probes:
        if not EVALUATED_STEPS <= len(probe.losses) <= PROBE_STEPS:
            raise ValueError(f"{name}: {len(probe.losses)} losses")
        if any(not steps.isdecimal() or len(steps) > 1 for steps in probe.updates):
            raise ValueError(f"{name}: updates of steps {', '.join(map(repr, probe.updates))}"[:200])
        for fingerprint in _fingerprints(probe):
            if len(fingerprint) < FEWEST_VALUES or any(abs(value) > LARGEST for value in fingerprint):
                raise ValueError(f"{name}: a fingerprint of {len(fingerprint)} values, the first {fingerprint[:1]}")
        if any(
            abs(value) > LARGEST for value in (probe.loss, probe.gradient_norm, *probe.losses, *probe.sizes.values())
        ):
            raise ValueError(f"{name}: a loss or a norm is above {LARGEST:.0e}")


def refuse_end(data: dict[str, Any], name: str) -> None:
    """Raise ValueError, with `name` before the reason, for data that are no trial's end."""
    record(data, TrialEnd, name)


def _fingerprints(probe: Evidence) -> Iterator[Fingerprint]:
    yield probe.evaluation
    yield probe.untrained_evaluation
    yield from probe.outputs.values()
    yield from probe.gradients.values()
    for changes in probe.updates.values():
        yield from changes.values()
