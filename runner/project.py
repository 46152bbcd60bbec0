"""The project's folders: made once by each program that is started, and passed on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from workloads.records.build import column_of

DEFINITION_FILE = "environment.toml"
RESULTS = Path("results")  # in the caller's folder: runs write below it if no other folder is named
XDG_VARIABLE = "XDG_CACHE_HOME"  # of the user: a folder of it is used


def find_user_cache() -> Path | None:
    """Return our folder in the cache that the user's variable names; its specification ignores a relative path."""
    cache = os.environ.get(XDG_VARIABLE, "")
    return Path(cache) / "batchwise" if os.path.isabs(cache) else None


@dataclass(frozen=True)
class Project:
    """A checkout, or its copy in an image: workloads/, adapters/, runner/ and reports/ lie in `root`."""

    root: Path
    environments: Path  # folder of the virtual environments
    adapters_outside: Path | None = None  # absolute; a folder of frameworks outside the checkout

    @classmethod
    def at(cls, root: Path) -> Project:
        """Return the checkout at this folder, with its environments in .envs."""
        return cls(root, root / ".envs")

    @classmethod
    def of_this_code(cls) -> Project:
        """Return the project that the running program is part of: for entry points."""
        return cls.at(Path(__file__).resolve().parents[1])

    @property
    def data(self) -> Path:
        """Folder that data sets are downloaded to."""
        return self.root / "data"

    @property
    def adapters(self) -> tuple[Path, ...]:
        """Folders that hold one folder per framework; the checkout's first."""
        own = self.root / "adapters"
        return (own,) if self.adapters_outside is None else (own, self.adapters_outside)

    @property
    def frameworks(self) -> list[str]:
        """Frameworks that define an environment."""
        return sorted(path.parent.name for folder in self.adapters for path in folder.glob(f"*/{DEFINITION_FILE}"))

    def folder(self, framework: str) -> Path:
        """Return the folder with the adapter and the definition of a framework, or of a build of it."""
        framework = column_of(framework).framework
        return next(folder / framework for folder in self.adapters if (folder / framework / DEFINITION_FILE).is_file())

    def definition(self, framework: str) -> Path:
        """Return the file that defines its environment."""
        return self.folder(framework) / DEFINITION_FILE

    def is_outside(self, framework: str) -> bool:
        """True if it comes from `adapters_outside`."""
        return self.folder(framework).parent == self.adapters_outside

    @property
    def import_variables(self) -> dict[str, str]:
        """Variables that let a worker of this machine find its modules; adapters/__init__.py reads the second."""
        outside = {} if self.adapters_outside is None else {"BATCHWISE_ADAPTERS": str(self.adapters_outside)}
        return {"PYTHONPATH": str(self.root)} | outside
