"""make measure-faults: a fault at each of so many points, drawn by a seed; every promise that does not hold is printed.

python tests/benchmarks/measure_faults.py POINTS SEED [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from faulted import Faults


def main(count: int, seed: int, folder: Path) -> int:
    """Test so many points; return exit code 1 where a promise does not hold at some point."""
    faults = Faults(folder)
    began_s, broken = time.monotonic(), 0
    points = faults.points(count, seed)
    for number, point in enumerate(points, start=1):
        wrong = faults.violations(point)
        broken += bool(wrong)
        for sentence in wrong:
            print(f"{point} ({point.finished} finished): {sentence}", flush=True)
        if number % 50 == 0:
            print(f"{number} of {len(points)} points, {broken} broken, {time.monotonic() - began_s:.0f} s", flush=True)
    print(f"{len(points)} points, {faults.met} of them met, seed {seed}: {broken} at which a promise does not hold")
    return int(bool(broken))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="batchwise-faults-") as temporary:
        target = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(temporary)
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), target))
