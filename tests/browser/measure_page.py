"""How long the report of many trials takes to make, its page to open, and how large that is.

python tests/browser/measure_page.py [TRIALS | RESULTS]
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]


def main() -> None:
    from browsing import chromium, opened_in_s
    from made import many

    from reports import build, files

    asked = sys.argv[1] if len(sys.argv) > 1 else "10000"
    with tempfile.TemporaryDirectory() as temporary:
        folder = many(Path(temporary) / "results", int(asked)) if asked.isdigit() else Path(asked)
        before, started = _processor_s(), time.perf_counter()
        report = build.report([folder])
        read = time.perf_counter()
        path, *_ = files.write(report, Path(temporary) / "report")
        written = time.perf_counter()
        own, drawing = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        print(
            f"{len(report.stored.results):,} trials, {len(report.chapters)} chapters: read in {read - started:.1f} s, "
            f"written with all charts in {written - read:.1f} s; {_processor_s() - before:.1f} s of processor; "
            f"peak {own.ru_maxrss / 1024:.0f} MiB, of a drawing process {drawing.ru_maxrss / 1024:.0f} MiB"
        )
        with chromium() as browser:
            times = [opened_in_s(browser, path) for _ in range(3)]
        print(f"page: {path.stat().st_size:,} bytes, opened in {', '.join(f'{one:.2f}' for one in times)} s")


def _processor_s() -> float:
    """This process's and its ended children's."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
