"""Name of a framework that the reports do not know: the label in its results is shown."""

from __future__ import annotations

import pytest

from reports.frameworks import choose_styles, display_name, learn_label


def test_a_framework_is_known_by_its_label_or_folder_and_known_ones_keep_their_names() -> None:
    assert display_name("jax") == "jax"
    learn_label("jax", {"framework_label": "JAX"})
    learn_label("caffe", {})
    assert (display_name("jax"), display_name("caffe")) == ("JAX", "caffe")
    assert [style.name for style in choose_styles(["caffe", "jax", "mxnet"]).values()] == ["MXNet", "caffe", "JAX"]
    learn_label("pytorch", {"framework_label": "Another"})
    assert display_name("pytorch") == "PyTorch"
    learn_label("mine", {"framework_label": "PyTorch"})
    learn_label("one", {"framework_label": "Same"})
    learn_label("other", {"framework_label": "Same"})
    assert [display_name(name) for name in ("mine", "one", "other")] == ["PyTorch (mine)", "Same (one)", "Same (other)"]


@pytest.mark.parametrize("label", [None, 3, "", "a|b", "<b>", "$x$", "a\nb"])
def test_what_is_no_label_is_not_shown(label: object) -> None:
    learn_label("jax", {"framework_label": label})
    assert display_name("jax") == "jax"
