"""Measure how long the report of many trials takes to make, its page to open, and how large the page is.

python tests/benchmarks/measure_page.py [TRIALS | RESULTS]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]


def main() -> None:
    from browsing import chromium, opened_in_s
    from made import many

    asked = sys.argv[1] if len(sys.argv) > 1 else "10000"
    with tempfile.TemporaryDirectory() as temporary:
        folder = many(Path(temporary) / "results", int(asked)) if asked.isdigit() else Path(asked)
        out = Path(temporary) / "report"
        started = time.perf_counter()
        command = [sys.executable, "-m", "reports", str(folder), "--out", str(out)]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        wall_s = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"report with all charts: {wall_s:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processor; "
            f"peak of the largest process {used.ru_maxrss / 1024:.0f} MiB"
        )
        page = out / "report.html"
        with chromium() as browser:
            times = [opened_in_s(browser, page) for _ in range(3)]
        print(f"page: {page.stat().st_size:,} bytes, opened in {', '.join(f'{one:.2f}' for one in times)} s")


if __name__ == "__main__":
    main()
