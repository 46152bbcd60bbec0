"""Write what the proof of an imported network needs: the user's file, the map of its tensors, and the tensors."""

from __future__ import annotations

from pathlib import Path

from runner.input_files import write
from workloads.records.job import InputFile
from workloads.records.source_map import SOURCE, SOURCE_CODE, SOURCE_WEIGHTS, SourceMap


def write_source(results: Path, source: SourceMap, code: bytes, tensors: Path | None = None) -> dict[str, InputFile]:
    """Return the inputs of every trial of the network, next to its layers and weights.

    `code` is the content of the file that makes the model, `tensors` the .npz of its tensors by its own names; without
    it the model's are those that it has when it is made. Raises OSError.
    """
    stem, suffix = Path(source.code.file).stem, Path(source.code.file).suffix
    inputs = {
        SOURCE: write(results, f"{stem}-source", ".json", memoryview(source.to_text().encode())),
        SOURCE_CODE: write(results, f"{stem}-code", suffix, memoryview(code)),
    }
    if tensors is not None:
        inputs[SOURCE_WEIGHTS] = write(results, f"{stem}-tensors", ".npz", memoryview(tensors.read_bytes()))
    return inputs
