"""python -m runner.import_model FILE.py:FUNCTION --out FILE: write the network of a model in code as JSON.

`python -m workloads import` and `describe` start it: only the runner knows the frameworks' interpreters.
"""

from __future__ import annotations

from workloads import program

if __name__ == "__main__":
    program.interrupt_at_once()
    program.report_missing_packages()

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runner.machine import description
from runner.project import Project
from runner.request import own_code
from runner.request.parser import BadInput
from runner.request.source_code import Importer, choose_device_kind
from workloads.command_line import CommandLine
from workloads.datasets import DataError, Dataset, Split
from workloads.source.files import keep_imported
from workloads.source.imported import Imported
from workloads.source.kept import describe_origin
from workloads.source.vocabulary import ImportRefused
from workloads.study import Study, StudyError

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options."""
    parser = CommandLine(prog="python -m runner.import_model", description=__doc__)
    parser.add_argument("network", metavar="FILE.py:FUNCTION", help="a function (classes) or () -> model")
    parser.add_argument("--from", dest="framework", metavar="FRAMEWORK", help="framework of the code: pytorch")
    parser.add_argument("--input-shape", nargs=3, type=int, metavar=("ROWS", "COLUMNS", "CHANNELS"))
    parser.add_argument("--classes", type=int, default=10, metavar="N", help="number of classes passed to the function")
    parser.add_argument("--python", dest="pythons", action="append", default=[], metavar="FRAMEWORK=PATH")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the weights that the code draws")
    parser.add_argument("--out", type=Path, default=Path("network.json"), metavar="FILE")
    parser.add_argument("--weights", type=Path, metavar="FILE")
    return parser.parse_args(arguments)  # type: ignore[no-any-return]


def import_model(options: argparse.Namespace) -> str:
    """Import the model, write its network and weights, and return a line that says what. Raises BadInput."""
    project = Project.of_this_code()
    pythons = own_code.name_builds(options.pythons, project, "venv")
    try:
        study = Study(
            "import", workload=options.network, from_framework=options.framework, seed=options.seed,
            input_shape=options.input_shape and tuple(options.input_shape),
        )  # fmt: skip
        dataset = Dataset("import", "", 1, 1, options.classes, _refuse_data)
        importer = Importer(project, pythons, "venv", choose_device_kind(description.list_gpus()), alone=False)
        imported = _check_alone(importer.import_model(study, dataset), importer, study, dataset, options.out)
        return keep_imported(imported, options.network, options.out, options.weights)
    except (StudyError, ImportRefused) as error:
        raise BadInput(str(error)) from error


def _check_alone(imported: Imported, importer: Importer, study: Study, dataset: Dataset, out: Path) -> Imported:
    """Return the import, without its origin if the file makes no such model without those next to it: a run takes it
    alone.

    The file is imported once more, unless `out` names no origin anyway.
    """
    source = Path(study.workload.rpartition(":")[0])
    if "missing" in describe_origin(imported, source, out):
        return imported
    try:
        alone = replace(importer, alone=True, known={}).import_model(study, dataset)
    except BadInput as error:
        reason = f"{source.name} makes no model without the files next to it: {error.__cause__ or error}"
        return replace(imported, origin=None, unproven=reason)
    if alone.workload != imported.workload:  # an installed package has the name of a file there
        reason = f"{source.name} makes another model without the files next to it"
        return replace(imported, origin=None, unproven=reason)
    return imported


def _refuse_data(folder: Path) -> tuple[Split, Split]:
    """Stand in for the reader of a data set: an import has no images. Raises DataError."""
    raise DataError("an import has no images")


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0; 2, or 1 after an error of the system, with one line; 130 after Ctrl-C."""
    program.interrupt_in_order()
    try:
        print(import_model(parse(arguments)))
    except BadInput as error:
        print(f"workloads: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except OSError as error:
        print(f"workloads: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:  # the command that started this one says so
        return program.EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
