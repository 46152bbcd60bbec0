"""Where the project lies: made once by each program that is started, and handed on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFINITION_FILE = "environment.toml"


@dataclass(frozen=True)
class Project:
    """A checkout, or its copy in an image: workloads/, adapters/, runner/ and reports/ lie in `root`."""

    root: Path
    environments: Path  # folder of the virtual environments

    @classmethod
    def at(cls, root: Path) -> Project:
        return cls(root, root / ".envs")

    @classmethod
    def of_this_code(cls) -> Project:
        """The one that the running program is part of: for entry points."""
        return cls.at(Path(__file__).resolve().parents[1])

    @property
    def adapters(self) -> Path:
        return self.root / "adapters"

    @property
    def data(self) -> Path:
        """Where data sets are downloaded to."""
        return self.root / "data"

    @property
    def frameworks(self) -> list[str]:
        """Folders among the adapters that define an environment."""
        return sorted(path.parent.name for path in self.adapters.glob(f"*/{DEFINITION_FILE}"))

    def definition(self, framework: str) -> Path:
        """What its environment is."""
        return self.adapters / framework / DEFINITION_FILE
