"""Folder of decoded images: in the caller's cache, else the results folder; never the checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from runner.cluster import node
from runner.data.cache import CACHE_VARIABLE
from runner.project import XDG_VARIABLE
from runner.request.cli import Request
from runner.request.own_data import find_cache_folder
from runner.request.parser import BadInput


@dataclass(frozen=True)
class Asked:
    results: Path


@pytest.fixture
def request_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in (CACHE_VARIABLE, XDG_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return cast(Request, Asked(tmp_path / "results"))


def test_the_callers_cache_comes_first_then_that_of_the_user_then_the_results_folder(
    request_of: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_cache_folder(request_of) == tmp_path / "results" / "cache"
    monkeypatch.setenv(XDG_VARIABLE, str(tmp_path / "xdg"))
    assert find_cache_folder(request_of) == tmp_path / "xdg" / "batchwise"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "shared"))
    assert find_cache_folder(request_of) == tmp_path / "shared"
    assert (tmp_path / "shared").is_dir() and not list((tmp_path / "shared").iterdir())


def test_a_home_folder_in_the_callers_cache_is_the_users_and_no_folder_of_that_name(
    request_of: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(CACHE_VARIABLE, "~/mine")
    assert find_cache_folder(request_of) == tmp_path / "home" / "mine"
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(("name", "value"), [(CACHE_VARIABLE, ""), (XDG_VARIABLE, ""), (XDG_VARIABLE, "relative")])
def test_a_variable_that_says_nothing_is_as_none(
    name: str, value: str, request_of: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cache_folder(request_of) == tmp_path / "results" / "cache"
    assert node.find_node_folder() == tmp_path / ".cache" / "batchwise"


@pytest.mark.parametrize("name", [CACHE_VARIABLE, XDG_VARIABLE])
def test_a_cache_that_cannot_be_written_is_bad_input(
    name: str, request_of: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(name, str(tmp_path / "file"))
    with pytest.raises(BadInput, match=f"decoded images cannot be kept in .*{name}.*set {CACHE_VARIABLE}") as told:
        find_cache_folder(request_of)
    assert "\n" not in str(told.value)
