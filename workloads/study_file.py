"""Read a study from a TOML file; what is wrong is named with its file and line."""

from __future__ import annotations

import errno
import os
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from .records.validation import describe_error
from .study import Series, Study, StudyError, is_path

HEAD = re.compile(r"\s*\[\[\s*series\s*\]\]")  # of each series in a file


def read(path: Path) -> Study:
    """Read a study. Raises StudyError naming file, key and line of an unknown, wrongly typed or out-of-range value."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise IsADirectoryError(errno.EISDIR, "no file")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: cannot be read: {describe_error(error)}") from error
    return parse_study(content, path)


def parse_study(content: bytes, path: Path) -> Study:
    """Read a study from a file's content. Raises StudyError as `read` does."""
    try:
        text = content.decode("utf-8-sig")  # some editors begin a file with a mark of its encoding
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:  # tomllib lets a number of too many digits through as it is
        raise StudyError(f"{path}: not valid TOML: {describe_error(error)}") from error
    known = [field.name for field in fields(Study) if field.name != "name"]
    try:
        for key in table:
            if key not in known:
                raise StudyError(f"unknown key; known: {', '.join(known)}", key)
        series = _series(table.pop("series", []), path.parent)
        return Study(name=path.stem, series=series, **_placed(table, path.parent))
    except StudyError as error:
        raise StudyError(f"{path}, line {find_line(error.key, text, error.series)}: {error}") from error


def find_line(key: str, text: str, series: int = 0) -> int:
    """Return the line of the key, from 1; for a key of a series, search below the head of series number `series`."""
    start_of_key = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[.=\]]""")
    heads, first = 0, 1
    for number, line in enumerate(text.splitlines(), start=1):
        if HEAD.match(line):
            heads += 1
            first = number if heads == series else first
        if key and heads == series and start_of_key.match(line):
            return number
    return first


def _series(tables: Any, folder: Path) -> tuple[Series, ...]:
    """Read the `[[series]]` of a file. Raises StudyError."""
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise StudyError("is not a list of tables: begin each with [[series]]", "series")
    return tuple(
        Series(str(each.pop("name", "")), tuple((key, _frozen(value)) for key, value in _placed(each, folder).items()))
        for each in tables
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _is_file(workload: str) -> bool:
    """True if a workload is named by a file: layers, a function of a file, or another source."""
    return workload.partition(":")[0].endswith((".py", ".keras", ".json", ".onnx"))


def _placed(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve paths of files named in the study, which are relative to the study's folder."""
    named = {"workload": _is_file, "dataset": is_path}
    paths = {key for key, is_named in named.items() if isinstance(table.get(key), str) and is_named(table[key])}
    return table | {key: os.path.join(folder, table[key]) for key in paths}
