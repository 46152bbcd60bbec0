"""The command `batchwise`: python -m runner, or python -m reports, without the caller's PYTHON... variables.

Only the standard library is imported at first: PYTHONPATH may name another project's packages of our packages' names.
So this is a module of its own, in none of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent


def main() -> None:
    """Replace this process by the same command in an interpreter that ignores the caller's variables."""
    os.execv(sys.executable, [sys.executable, "-I", "-B", str(Path(__file__).absolute()), *sys.argv[1:]])


def start() -> None:
    """Replace this process, which ignores them, by the program; its environment keeps only the harmless ones."""
    sys.path.insert(0, str(ROOT))
    from workloads.program import build_environment

    words = sys.argv[1:]
    module = words.pop(0) if words[:1] == ["reports"] else "runner"
    environment = build_environment(os.environ, ROOT)
    os.execve(sys.executable, [sys.executable, "-P", "-m", module, *words], environment)


if __name__ == "__main__":
    start()
