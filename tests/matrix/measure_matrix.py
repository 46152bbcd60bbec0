"""Print what each framework makes of the machines of machines.py: python tests/matrix/measure_matrix.py."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from machines import PROCESSORS, bare_place, narrow_place, other_python, rows, run, without_shm
from tabulate import tabulate

HEAD = ("machine", "framework", "status", "gate", "images/s", "kernels")


def main() -> None:
    found: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for number, place in enumerate(PROCESSORS):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            found += rows(run(place, folder))
        folder = Path(temporary) / "narrow"
        folder.mkdir()
        found += rows(run(narrow_place(folder), folder))
        (python, no_python), (prefix, no_prefix) = other_python(Path(temporary)), without_shm()
        folder = Path(temporary) / "bare"
        folder.mkdir()
        found += rows(run(bare_place(folder, python or sys.executable, prefix), folder))
    print(tabulate(found, HEAD, tablefmt="github", disable_numparse=True))
    for reason in filter(None, (no_python, no_prefix)):
        print(f"not seen: {reason}")


if __name__ == "__main__":
    main()
