"""Identify the version of the reports that builds a page, by a digest stored in the publication.

Two builds with the same digest make the same page from the same archive, so a page can be compared as a whole.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("reports", "workloads")
LEFT_OUT = ("__pycache__",)
PACKAGES = ("jinja2", "matplotlib", "numpy", "pandas", "scipy")
DIGITS = 16


@cache
def version_of_reports() -> str:
    """Digest of the code, its templates and rules, and of the packages that compute and draw."""
    files = [
        path
        for room in CODE
        for path in (ROOT / room).rglob("*")
        if path.is_file() and not set(LEFT_OUT) & set(path.relative_to(ROOT).parts)
    ]
    digest = hashlib.sha256(platform.python_version().encode())
    for package in PACKAGES:
        digest.update(f"\0{package} {version(package)}".encode())
    for path in sorted([*files, ROOT / "RULES.md"]):
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:DIGITS]
