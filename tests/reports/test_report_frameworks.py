"""Name of a framework that the reports do not know: the label in its results is shown."""

from __future__ import annotations

import pytest

from reports.frameworks import choose_styles, display_name, learn_label


def test_a_framework_is_known_by_its_label_or_folder_and_known_ones_keep_their_names() -> None:
    assert display_name("flux") == "flux"
    learn_label("flux", {"framework_label": "Flux"})
    learn_label("caffe", {})
    assert (display_name("flux"), display_name("caffe")) == ("Flux", "caffe")
    assert [style.name for style in choose_styles(["caffe", "flux", "mxnet"]).values()] == ["MXNet", "caffe", "Flux"]
    learn_label("pytorch", {"framework_label": "Another"})
    assert display_name("pytorch") == "PyTorch"
    learn_label("mine", {"framework_label": "PyTorch"})
    learn_label("one", {"framework_label": "Same"})
    learn_label("other", {"framework_label": "Same"})
    assert [display_name(name) for name in ("mine", "one", "other")] == ["PyTorch (mine)", "Same (one)", "Same (other)"]


@pytest.mark.parametrize("label", [None, 3, "", "a|b", "<b>", "$x$", "a\nb"])
def test_what_is_no_label_is_not_shown(label: object) -> None:
    learn_label("theano", {"framework_label": label})
    assert display_name("theano") == "theano"
