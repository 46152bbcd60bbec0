"""Measure how long the report of many trials, and the site over them, take to make and to open, and their sizes.

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


def timed(what: str, *words: object) -> None:
    """Run `python -m reports` with these words, and print the time that it took."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "reports", *map(str, words)]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{what}: {time.perf_counter() - started:.1f} s, {cpu_s:.1f} s of processor; "
        f"peak of the largest process so far {used.ru_maxrss / 1024:.0f} MiB"
    )


def main() -> None:
    from browsing import chromium, opened_in_s
    from made import many

    asked = sys.argv[1] if len(sys.argv) > 1 else "10000"
    with tempfile.TemporaryDirectory() as temporary:
        folder = many(Path(temporary) / "results", int(asked)) if asked.isdigit() else Path(asked)
        report, site = Path(temporary) / "report", Path(temporary) / "site"
        timed("report with all charts", folder, "--out", report)
        timed("site", "site", folder, "--out", site)
        with chromium() as browser:
            for page in (report / "report.html", site / "index.html"):
                times = ", ".join(f"{opened_in_s(browser, page):.2f}" for _ in range(3))
                print(f"{page.name}: {page.stat().st_size:,} bytes, opened in {times} s")


if __name__ == "__main__":
    main()
