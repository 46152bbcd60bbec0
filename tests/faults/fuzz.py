"""python tests/faults/fuzz.py READER CASES [SEED]: mutated files, each read as the runner and the reports read it.

A reader returns a value that can be used, or raises ValueError with one line, and nothing else. It takes at most MOST_S
of processor time, even on a loaded machine, and keeps no memory. The seed decides every case; a case that fails is
written to fuzz-READER-SEED-CASE. READER is one of `readers.NAMES`, or all.
"""

from __future__ import annotations

import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from mutations import mutated  # noqa: E402
from readers import NAMES, Reader, reader  # noqa: E402

MOST_S, MOST_BYTES = 2.0, 300 * 2**20
MOST_CHARACTERS = 1200  # in a reason


class Fault(AssertionError):
    """A reader did what it must not do."""


@dataclass
class Tally:
    """Counts over many cases."""

    cases: int = 0
    refused: int = 0
    longest_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)


def read(of: Reader, content: bytes) -> bool:
    """Read and use a file; return True if it was refused. Raises Fault."""
    started = time.process_time()
    refused = _refused(of, content)
    if (took_s := time.process_time() - started) > MOST_S:
        raise Fault(f"it took {took_s:.1f} s")
    return refused


def _refused(of: Reader, content: bytes) -> bool:
    """Return True if the file was refused. Raises Fault."""
    try:
        value = of.read(content)
    except ValueError as error:
        if "\n" in str(error) or not 0 < len(str(error)) <= MOST_CHARACTERS:
            raise Fault(f"the reason is no line of its own: {str(error)[:200]!r}") from error
        return True
    except Exception as error:
        raise Fault(f"read: {_place(error)}") from error
    try:
        of.use(value)
    except Exception as error:
        raise Fault(f"used: {_place(error)}") from error
    return False


def _place(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:120]} ({Path(frame.filename).name}:{frame.lineno})"


def case(of: Reader, seed: int, number: int) -> bytes:
    """Return the seed's mutated file of this number."""
    random = Random(f"{seed}-{number}")
    return mutated(random.choice(of.texts), random)


def run(name: str, cases: int, seed: int, keep: Path | None = None) -> Tally:
    """Run all cases; write the first failing case of each kind into `keep`."""
    of, tally = reader(name), Tally()
    for number in range(cases):
        content = case(of, seed, number)
        started = time.process_time()
        try:
            tally.refused += read(of, content)
        except Fault as fault:
            kind = str(fault)
            if keep and not tally.faults[kind]:
                (keep / f"fuzz-{name}-{seed}-{number}").write_bytes(content)
            tally.faults[kind] += 1
        tally.longest_s = max(tally.longest_s, time.process_time() - started)
        tally.cases += 1
    return tally


def main(words: list[str]) -> int:
    """Run the readers that the command line names; return exit code 1 if a case failed."""
    name, cases, seed = words[0], int(words[1]), int(words[2]) if len(words) > 2 else 1
    warnings.simplefilter("ignore")  # numpy warns of sums that are not numbers; such a figure is refused
    failed = False
    for each in NAMES if name == "all" else [name]:
        run(each, 10, 0)  # what is loaded only once is not counted as growth
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        started = time.perf_counter()
        tally = run(each, cases, seed, Path.cwd())
        took_s = time.perf_counter() - started
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        print(
            f"{each}: {tally.cases:,} cases, {tally.refused / tally.cases:.0%} refused, {tally.cases / took_s:,.0f} a "
            f"second, the longest {tally.longest_s:.2f} s, {grown / 2**20:.0f} MiB more, {len(tally.faults)} faults",
            flush=True,
        )
        for fault, count in tally.faults.most_common():
            print(f"  {count} times: {fault}")
        failed |= bool(tally.faults) or grown > MOST_BYTES
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
