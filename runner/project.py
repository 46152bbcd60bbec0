"""Where the project lies: made once by each program that is started, and handed on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workloads.records.build import adapter_of

DEFINITION_FILE = "environment.toml"
RESULTS = Path("results")  # of the caller's folder: runs write below it where no other folder is named


@dataclass(frozen=True)
class Project:
    """A checkout, or its copy in an image: workloads/, adapters/, runner/ and reports/ lie in `root`."""

    root: Path
    environments: Path  # folder of the virtual environments
    adapters_outside: Path | None = None  # absolute; a folder of frameworks that are not the checkout's

    @classmethod
    def at(cls, root: Path) -> Project:
        """The checkout at this folder, with its environments in .envs."""
        return cls(root, root / ".envs")

    @classmethod
    def of_this_code(cls) -> Project:
        """The one that the running program is part of: for entry points."""
        return cls.at(Path(__file__).resolve().parents[1])

    @property
    def data(self) -> Path:
        """Where data sets are downloaded to."""
        return self.root / "data"

    @property
    def adapters(self) -> tuple[Path, ...]:
        """Folders of frameworks, a folder each; the checkout's first."""
        own = self.root / "adapters"
        return (own,) if self.adapters_outside is None else (own, self.adapters_outside)

    @property
    def frameworks(self) -> list[str]:
        """Those that define an environment."""
        return sorted(path.parent.name for folder in self.adapters for path in folder.glob(f"*/{DEFINITION_FILE}"))

    def folder(self, framework: str) -> Path:
        """Where the adapter and the definition of a framework, or of a build of it, lie."""
        framework = adapter_of(framework)
        return next(folder / framework for folder in self.adapters if (folder / framework / DEFINITION_FILE).is_file())

    def definition(self, framework: str) -> Path:
        """What its environment is."""
        return self.folder(framework) / DEFINITION_FILE

    def is_outside(self, framework: str) -> bool:
        """Whether it comes from `adapters_outside`."""
        return self.folder(framework).parent == self.adapters_outside

    @property
    def import_variables(self) -> dict[str, str]:
        """By which a worker of this machine finds its modules; adapters/__init__.py reads the second."""
        outside = {} if self.adapters_outside is None else {"BATCHWISE_ADAPTERS": str(self.adapters_outside)}
        return {"PYTHONPATH": str(self.root)} | outside
