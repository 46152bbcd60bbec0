"""How long the page of many trials takes to write and to open, and how large it is.

python tests/browser/measure_page.py [TRIALS [REPORT.html]]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]


def main() -> None:
    from browsing import chromium, opened_in_s
    from made import many, report

    from reports.web import page as web

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = many(Path(temporary) / "results", count)
        path = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(temporary) / "report.html"
        started = time.perf_counter()
        made = report(folder)
        read = time.perf_counter()
        web.write(made, path)
        written = time.perf_counter()
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{count:,} trials: read in {read - started:.1f} s, page in {written - read:.1f} s, peak {peak_mib:.0f} MiB"
        )
        with chromium() as browser:
            times = [opened_in_s(browser, path) for _ in range(3)]
        print(f"page: {path.stat().st_size:,} bytes, opened in {', '.join(f'{one:.2f}' for one in times)} s")


if __name__ == "__main__":
    main()
