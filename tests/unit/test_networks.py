"""Networks as data and as files: what is written is what is read, and what cannot be read is one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import make_spec
from each import for_each

from workloads import __main__ as program
from workloads import networks
from workloads.layers import BatchNorm, Conv2D, Dense, DepthwiseConv2D, Flatten, Gelu, Layer
from workloads.networks import WORKLOADS, NetworkError
from workloads.records import network
from workloads.records.job import InputFile
from workloads.spec import Workload

FILE = """
from workloads.layers import Conv2D, Dense, Flatten
from workloads.spec import Workload

MINE = Workload(
    name="mine",
    summary="one convolution",
    input_shape=(8, 8, 1),
    layers=(Conv2D("conv", filters=2, kernel=(3, 3)), Flatten("flatten"), Dense("dense", units=CLASSES)),
)
"""


def written(folder: Path, text: str, classes: int = 3) -> Path:
    path = folder / "mine.py"
    path.write_text(text.replace("CLASSES", str(classes)))
    return path


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_network_comes_back_from_json_as_it_was(name: str) -> None:
    workload = WORKLOADS[name]
    read = network.from_json(json.loads(network.to_text(workload)))
    assert read == replace(workload, summary="", differs="")
    assert network.to_text(read) == network.to_text(workload)


@pytest.mark.parametrize(
    "layers", [(Flatten("block1.flatten"), Dense("dense", 3)), (Conv2D("conv", 2, (7, 7)), Flatten("several_pixels"))]
)
def test_a_network_of_a_stored_trial_is_read_though_no_new_trial_is_made_of_such(
    layers: tuple[Layer, ...], tmp_path: Path
) -> None:
    old = Workload("old", "", (8, 8, 1), layers)
    assert networks.read_stored(network.to_text(old).encode(), network.digest(old)) == old
    (tmp_path / "old.py").write_text(f"from workloads.layers import *\nfrom workloads.spec import Workload\nW = {old}")
    with pytest.raises(NetworkError, match=r"a layer's name must be|a Flatten of several pixels"):
        networks.find(str(tmp_path / "old.py"))


def test_a_network_that_pads_unevenly_where_it_strides_says_how_it_differs_from_its_reference() -> None:
    """The references are written for PyTorch, which pads alike on both sides."""
    uneven = set()
    for workload in WORKLOADS.values():
        for layer, shape in workload.walk():
            if isinstance(layer, Conv2D | DepthwiseConv2D) and layer.stride > 1:
                (above, below), (left, right) = layer.margins(shape)
                uneven |= {workload.name} if (above, left) != (below, right) else set()
    assert uneven == {"mobilenet-v3-large"}
    assert all('"same"' in WORKLOADS[name].differs for name in uneven)
    assert "bias" in WORKLOADS["vgg-11"].differs
    assert WORKLOADS["mobilenet-v3-large"].differs in program.describe(WORKLOADS["mobilenet-v3-large"])
    assert not WORKLOADS["resnet-18"].differs and not WORKLOADS["resnet-18-small"].differs


def test_fields_that_records_got_later_are_left_out_at_their_default_so_that_published_digests_stay() -> None:
    layers = (BatchNorm("norm", scale=False), Gelu("gelu", approximate=True), Flatten("f"), Dense("d", 3, bias=False))
    bare = Workload("bare", "", (8, 8, 1), layers)
    text = network.to_text(bare)
    assert network.from_json(json.loads(text)) == bare
    assert all(text.count(word) == 1 for word in ('"scale": false', '"approximate": true', '"bias": false'))
    assert '"center"' not in text
    usual = (BatchNorm("norm"), Gelu("gelu"), Flatten("f"), Dense("d", 3))
    texts = network.to_json(replace(bare, layers=usual))["layers"]
    assert [sorted(each) for each in texts] == [
        ["epsilon", "layer", "momentum", "name"], ["layer", "name"], ["layer", "name"],
        ["initializer", "layer", "name", "units"],
    ]  # fmt: skip
    assert network.digest(WORKLOADS["vit-tiny"]) == "c64d189d6966"
    assert network.digest(WORKLOADS["resnet-18"]) == "8d28fd6810d3"


def test_margins_come_back_from_json_and_what_is_no_padding_does_not() -> None:
    padded = Workload(
        "padded", "", (8, 8, 1), (Conv2D("conv", 2, (3, 3), 2, (1, 2, 0, 3)), Flatten("f"), Dense("d", 3))
    )
    text = network.to_text(padded)
    assert network.from_json(json.loads(text)) == padded and networks.read_stored(text.encode()) == padded
    for wrong in ("SAME", 1, None, [1, 2, 0], [1, 2, 0, True], [1, 2, 0, 3.0], [1, 2, 0, "3"]):
        data = json.loads(text)
        data["layers"][0]["padding"] = wrong
        with pytest.raises(TypeError, match=r"Conv2D\.padding is of another type"):
            network.from_json(data)
    data["layers"][0]["padding"] = [1, 2, 0, -1]
    assert networks.read_stored(json.dumps(data).encode()) is None


def test_every_layer_record_can_be_stored() -> None:
    kinds: set[type[Layer]] = set()
    pending = [Layer]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if not kind.__subclasses__() and kind.__module__.startswith("workloads.layers"):
            kinds.add(kind)
    assert set(network.KINDS.values()) == kinds and len(kinds) > 10


def test_a_file_anywhere_defines_one_network_by_the_records_of_the_catalogue(tmp_path: Path) -> None:
    expected = Workload("mine", "", (8, 8, 1), (Conv2D("conv", 2, (3, 3)), Flatten("flatten"), Dense("dense", 3)))
    path = written(tmp_path, FILE)
    assert replace(networks.find(str(path)), summary="") == expected
    assert networks.find("osu-cnn") == WORKLOADS["osu-cnn"]
    assert networks.read(written(tmp_path, FILE + "\nSAME = MINE\n")).name == "mine"
    workload = networks.read(written(tmp_path, FILE))
    text = network.to_text(workload)
    assert network.to_text(replace(workload, summary="in other words", differs="not at all")) == text
    assert network.to_text(replace(workload, scale=1.0)) != text
    assert network.to_text(replace(workload, layers=(*workload.layers[:-1], Dense("dense", 4)))) != text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must define one Workload at its top level, but defines none"),
        (FILE + FILE.replace('"mine"', '"yours"').replace("MINE", "YOURS"), "defines mine, yours"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("def", "SyntaxError"),
        ("raise ValueError('in two\\nlines')", "ValueError: in two lines"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        (FILE.replace('"mine"', '"My Net"'), "its name may only have"),
        (FILE.replace('"mine"', '"osu-cnn"'), "the catalogue already has osu-cnn"),
        (FILE.replace('Flatten("flatten"), ', ""), "layer dense"),
        (FILE.replace("(3, 3)", "(9, 9)"), "layer conv"),
        (FILE.replace("(3, 3)", "(3, 3), padding=(1, 1)"), 'layer conv: padding is (1, 1); must be "valid", "same" or'),
        (FILE.replace("(3, 3)", "(3, 3), padding='SAME'"), 'layer conv: padding is SAME; must be "valid", "same" or'),
        (FILE.replace('Flatten("flatten"), Dense("dense", units=CLASSES)', ""), "needs a logit for each"),
        (FILE.replace("CLASSES", "1"), "needs a logit for each"),
        (FILE.replace("input_shape", 'loss="binary-cross-entropy", input_shape'), "needs one logit"),
        (FILE.replace('Flatten("flatten")', 'Flatten("conv")'), "layer names repeat"),
        *(
            (FILE.replace('Flatten("flatten")', f"Flatten({name!r})"), "a layer's name must be 1 to 80 of")
            for name in ("r1/a", "r1.a", "", " ", "-a", "_a", "a b", "\u00e4", 81 * "a", "a\n", 1)
        ),
        (FILE.replace(', Dense("dense", units=CLASSES)', ""), "layer flatten: a Flatten of several pixels and"),
        (
            FILE.replace(
                'Flatten("flatten"), Dense("dense", units=CLASSES)', 'Dropout("d", 0.1), Flatten("flat"), Relu("end")'
            ).replace("import Conv2D, ", "import Conv2D, Dropout, Relu, "),
            "layer flat: a Flatten of several pixels and",
        ),
        (
            FILE.replace('Dense("dense"', 'residual("sum", (Dense("d", 72),)), Dense("dense"').replace(
                "import Conv2D, ", "import Conv2D, residual, "
            ),
            "layer sum: a Flatten before or at the end of a branch needs a Dense after it",
        ),
    ],
)
def test_a_file_that_is_no_network_is_one_line_that_says_where_and_what(text: str, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(NetworkError) as caught:
        networks.find(str(path))
    message = str(caught.value)
    assert str(path) in message and reason in message and "\n" not in message


@pytest.mark.parametrize(
    "end",
    [
        'Conv2D("a", 3, (6, 6)), Flatten("end")',  # one pixel
        'Conv2D("a", 1, (6, 6)), Flatten("flat"), Dense("d", 3), Flatten("end")',
        'Conv2D("a", 1, (3, 3)), Flatten("end")',  # one channel
    ],
)
def test_a_flatten_at_the_end_that_has_one_order_alone_is_a_network(end: str, tmp_path: Path) -> None:
    text = FILE.replace('Flatten("flatten"), Dense("dense", units=CLASSES)', end)
    assert networks.read(written(tmp_path, text)).layers[-1] == Flatten("end")


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_every_network_of_the_catalogue_passes_as_a_file_of_ones_own(workload: Workload, tmp_path: Path) -> None:
    path = tmp_path / "copied.py"
    path.write_text(f"from workloads.layers import *\nfrom workloads.spec import Workload\nW = {workload}")
    assert networks.read(path) == workload


def test_a_file_that_is_not_there_or_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    for name in ("absent.py", "folder.py"):
        with pytest.raises(NetworkError, match=name):
            networks.find(str(tmp_path / name))


def test_describe_prints_each_layer_with_its_sums_and_an_unknown_network_is_bad_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert program.main(["describe", "osu-cnn"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["conv1", "Conv2D", "30", "x", "30", "x", "32", "896", "777,600", "115,200"] in lines
    assert ["all", "122,570", "4,548,608", "367,784"] in lines
    assert program.main(["describe", "no-such"]) == 2
    assert "unknown workload no-such" in capsys.readouterr().err


@for_each(
    "words, option",
    [
        ("describe osu-cnn --classes 3 --input-shape 64 64 3 --from pytorch", "--from"),
        ("describe osu-cnn --input-shape 64 64 3", "--input-shape"),
        ("describe {file} --python pytorch=/usr/bin/python3", "--python"),
        ("import {file} --classes 5 --out {out}", "--classes"),
        ("import net.keras --classes 5 --out {out}", "--classes"),
    ],
)
def test_options_of_code_are_refused_for_a_network_that_is_none(
    words: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would have no effect."""
    file, out = tmp_path / "mine.py", tmp_path / "mine.json"
    file.write_text(FILE)
    assert program.main(words.format(file=file, out=out).split()) == 2
    printed = capsys.readouterr()
    assert printed.err == f"workloads: {option}: is for a model in code, FILE.py:FUNCTION; leave it out\n"
    assert not printed.out and not out.exists()


def test_layers_of_ones_own_that_no_adapter_knows_are_refused(tmp_path: Path) -> None:
    own = (
        "from dataclasses import dataclass\nfrom workloads.layers import Layer\n"
        "@dataclass(frozen=True)\nclass Mine(Layer):\n    pass\n"
    )
    text = own + FILE.replace('Flatten("flatten")', 'Mine("mine"), Flatten("flatten")')
    with pytest.raises(NetworkError, match="layer mine: Mine is not a layer"):
        networks.read(written(tmp_path, text))


def of_folder(results: Path, text: str | None, name: str = "inputs/tiny-network.json", digest: str = "") -> Any:
    """Return what is found for a trial whose folder holds this network."""
    (results / "inputs").mkdir(parents=True, exist_ok=True)
    if text is not None:
        (results / "inputs" / "tiny-network.json").write_text(text)
    inputs = {"network": InputFile(name, "-")}
    return networks.find_trained(make_spec(workload="tiny", network=digest, inputs=inputs), results)


def test_a_stored_trials_network_is_that_of_its_inputs_or_unknown_and_never_a_file_elsewhere(tmp_path: Path) -> None:
    tiny, text = WORKLOADS["tiny"], network.to_text(WORKLOADS["tiny"])
    digest, ill = network.digest(tiny), replace(tiny, layers=tiny.layers[-1:])  # a dense layer on an image
    assert of_folder(tmp_path / "a", text, digest=digest) == replace(tiny, summary="")
    assert of_folder(tmp_path / "b", text, digest=12 * "0") is None, "another one than the trial trained"
    assert of_folder(tmp_path / "c", None, digest=digest) is None
    assert of_folder(tmp_path / "d", "[" * 100_000, digest=digest) is None
    assert of_folder(tmp_path / "e", network.to_text(ill), digest=network.digest(ill)) is None
    (tmp_path / "outside.json").write_text(text)
    for name in ("../outside.json", "inputs", str(tmp_path / "outside.json"), "/dev/zero"):
        assert of_folder(tmp_path / "f", None, name, digest) is None
