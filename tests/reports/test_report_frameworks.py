"""Name of a framework that the reports do not know: the label in its results is shown."""

from __future__ import annotations

import pytest

from reports.frameworks import display_name, learn_label, styles


def test_its_label_where_a_result_tells_it_and_else_its_folder() -> None:
    assert display_name("jax") == "jax"
    learn_label("jax", {"framework_label": "JAX"})
    learn_label("caffe", {})
    assert (display_name("jax"), display_name("caffe")) == ("JAX", "caffe")
    assert [style.name for style in styles(["caffe", "jax", "mxnet"]).values()] == ["MXNet", "caffe", "JAX"]


def test_those_that_are_known_keep_their_names() -> None:
    learn_label("pytorch", {"framework_label": "Another"})
    assert display_name("pytorch") == "PyTorch"


def test_two_of_one_label_are_told_apart_by_their_folders() -> None:
    learn_label("mine", {"framework_label": "PyTorch"})
    learn_label("one", {"framework_label": "Same"})
    learn_label("other", {"framework_label": "Same"})
    assert [display_name(name) for name in ("mine", "one", "other")] == ["PyTorch (mine)", "Same (one)", "Same (other)"]


@pytest.mark.parametrize("label", [None, 3, "", "a|b", "<b>", "$x$", "a\nb"])
def test_what_is_no_label_is_not_shown(label: object) -> None:
    learn_label("jax", {"framework_label": label})
    assert display_name("jax") == "jax"
