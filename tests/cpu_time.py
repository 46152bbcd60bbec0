"""A limit on the CPU time of quick tests, so that `make test` stays quick.

CPU time is limited, not wall time: it grows little where other processes compute.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SHARE = 0.8  # share of a core that a test had; with less, others disturbed it
LIMIT_S = 2.0  # on the machine on which LOOP_S was measured; a slower one has more
LOOP_S = 0.0104  # CPU time of the loop below: AMD EPYC (Zen 3), Python 3.11
SHARED = 2.0  # times as much CPU time counts where another virtual machine shares the core and its caches
SLOW = frozenset({"real", "browser", "gpu", "images", "slow", "smoke"})  # markers of tests that may take longer


@contextmanager
def limit_cpu_time(item: pytest.Item) -> Iterator[None]:
    """Fail a test without a marker of SLOW whose call takes more CPU time than the limit.

    It is judged where it had a core to itself, as under `make`. Threads that wait for each other among many processes
    use several times as much. Not judged: a test that loads a module first, which later tests find loaded; any test
    under coverage, or where Python keeps nothing that it compiled, so that each child compiles it again.
    """
    unfair = len(os.sched_getaffinity(0)) > 1 or sys.dont_write_bytecode or item.config.getoption("cov_source", None)
    if unfair or any(marker.name in SLOW for marker in item.iter_markers()):
        yield
        return
    loaded, started_s, began_s = len(sys.modules), used_cpu_s(), time.monotonic()
    yield
    used_s = used_cpu_s() - started_s
    judged = len(sys.modules) == loaded and used_s > SHARE * (time.monotonic() - began_s)
    if judged and used_s > LIMIT_S and used_s > (limit_s := SHARED * LIMIT_S * measure_slowness()):
        pytest.fail(
            f"{used_s:.1f} s of CPU time; a test without a marker may take {limit_s:.1f} s on this machine. "
            "Make it quicker, or mark it: @pytest.mark.slow",
            pytrace=False,
        )


def used_cpu_s() -> float:
    """CPU time of this process and of the children that it has waited for."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


def measure_slowness() -> float:
    """Return how many times as long as the machine of LOOP_S this one takes at present; at least 1."""
    took_s = []
    for _ in range(5):
        started_s = time.process_time()
        sum(number * number for number in range(200_000))
        took_s.append(time.process_time() - started_s)
    return max(1.0, sorted(took_s)[2] / LOOP_S)
