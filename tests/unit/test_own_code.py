"""--model: what is not a function that makes a model is one line; worker and trial record the function."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, make_spec, varied
from pictured import QUIET, a_folder

from adapters.shared import function_of, make_checked, without_layers
from runner.__main__ import main
from runner.data.cache import CACHE_VARIABLE
from runner.request import cli, own_data, parser
from runner.request.own_code import NAMELESS, add_models, build_trial, need_asked, parse_models
from runner.request.parser import BadInput
from workloads.networks import find_trained
from workloads.records.job import InputFile, TrialSpec
from workloads.records.network import OwnCode

OWN = OwnCode("pytorch", "net.py", "make_model", "0123456789ab", 10, (8, 8, 1))
SOURCE = "def make_model(classes):\n    return classes\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_net.py"
    path.write_text(SOURCE + "make = make_model\n\nclass Net:\n    pass\n")
    return path


@pytest.mark.parametrize(
    ("argument", "telling"),
    [
        ("pytorch", "give FRAMEWORK=FILE.py:FUNCTION"),
        ("pytorch={file}", "give FRAMEWORK=FILE.py:FUNCTION"),
        ("pytorch={file}:", "give FRAMEWORK=FILE.py:FUNCTION"),
        ("pytorhc={file}:make_model", "did you mean pytorch"),
        ("pytorch@a={file}:make_model", "did you mean pytorch"),
        ("numpy={file}:make_model", "numpy is the referee"),
        ("pytorch={file}:make_modl", "defines no make_modl: did you mean make_model?"),
        ("pytorch={file}:xyz", "defines no xyz: it defines make_model, make, Net"),
        ("pytorch=/no/such.py:make_model", "/no/such.py: No such file or directory"),
        ("pytorch=/usr:make_model", "/usr: Is a directory"),
        ("pytorch={broken}:make_model", "broken.py, line 2: "),
        ("pytorch={nulls}:make_model", "nulls.py"),
        ("mxnet={file}:make_model", "--model names no model for pytorch: give it one, too, or leave it out"),
    ],
)
def test_what_makes_no_model_is_one_line_and_nothing_is_started(
    argument: str, telling: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, nulls = tmp_path / "broken.py", tmp_path / "nulls.py"
    broken.write_text("x = 1\ndef make_model(:\n")
    nulls.write_bytes(b"\xff\xfe\x00")
    words = argument.format(file=file, broken=broken, nulls=nulls)
    results = tmp_path / "results"
    assert main(["--framework", "pytorch", "--model", words, "--device", "cpu", "--results", str(results)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert telling in line
    assert not results.exists()


def test_one_framework_has_one_model_whose_file_the_runner_does_not_run_and_workers_keep_whole(file: Path) -> None:
    with pytest.raises(BadInput, match="--model names pytorch twice"):
        parse_models([f"pytorch={file}:make_model", f"pytorch={file}:make"], PROJECT)
    make_model = function_of(file, "make_model")
    assert make_model(3) == 3
    assert sys.modules[make_model.__module__].__file__ == str(file)
    assert list(file.parent.iterdir()) == [file]


def test_the_file_is_not_run_by_the_runner(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(f"{SOURCE}raise SystemExit('it was run')\n")
    assert parse_models([f"pytorch={file}:make_model"], PROJECT)["pytorch"].function == "make_model"


def test_frameworks_are_those_with_a_model_unless_others_are_asked_for_by_name(file: Path) -> None:
    models = parse_models([f"pytorch={file}:make_model"], PROJECT)
    every = ("mxnet", "pytorch", "pytorch@a", "tensorflow")
    assert add_models(every, ["all"], {}) == every
    assert add_models(every, ["all"], models) == ("pytorch", "pytorch@a")
    with pytest.raises(BadInput, match="--model names no model for mxnet"):
        add_models(every, ["pytorch", "mxnet"], models)
    with pytest.raises(BadInput, match="--model names no model for mxnet@b"):
        add_models(("mxnet@b", "pytorch"), ["all"], models)
    with pytest.raises(BadInput, match="--model pytorch: --framework does not ask for it"):
        need_asked(["mxnet"], {}, models, "--framework does not ask for it")


@pytest.mark.parametrize(
    ("name", "workload"), [("my_Net.py", "my-net"), ("osu_cnn.py", NAMELESS), ("ä.py", NAMELESS), ("_.py", NAMELESS)]
)
def test_a_file_names_its_trials_but_never_as_the_catalogue_does(name: str, workload: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SOURCE)
    assert parse_models([f"pytorch={tmp_path / name}:make_model"], PROJECT)["pytorch"].workload == workload


@pytest.mark.parametrize("published", [False, True])
def test_own_code_gets_images_of_the_networks_size_as_it_enlarges_none(
    published: bool, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    photos = a_folder(tmp_path / "photos", size=lambda number: (5, 6))
    data = ("digits", "--fit", "stretch") if published else (photos,)
    words = ("--model", f"pytorch={file}:make_model", "--workload", "osu-cnn", "--results", tmp_path / "r", "--dataset")
    options = parser.run_parser().parse_args(list(map(str, (*words, *data, "--device", "cpu"))))
    asked = cli.build_request(options, PROJECT)
    request = own_data.prepare_images(asked, QUIET)
    assert request.workload == asked.workload and request.source is not None and not request.source.enlarged
    assert (request.source.rows, request.source.columns) == asked.workload.input_shape[:2]


def of_file(file: Path) -> TrialSpec:
    models = parse_models([f"pytorch={file}:make_model"], PROJECT)
    inputs = {name: InputFile(f"inputs/{name}", name) for name in ("order", "model of pytorch")}
    return build_trial(make_spec(framework="pytorch@a", inputs=inputs), models, 10, (8, 8, 1))


def test_a_trial_has_the_code_in_place_of_a_network_and_its_id_changes_with_every_part_of_it(file: Path) -> None:
    spec = of_file(file)
    assert spec.task.own_code and (spec.task.workload, spec.task.network) == ("my-net", "")
    assert set(spec.inputs) == {"order", "model"}
    assert TrialSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    others: dict[str, Any] = {
        "framework": "mxnet",
        "file": "b.py",
        "function": "f",
        "digest": "1",
        "classes": 2,
        "input_shape": (9,),
    }
    ids = {varied(spec, own_code=replace(spec.task.own_code, **{key: other})).id for key, other in others.items()}
    assert len(ids | {spec.id, varied(spec, own_code=None).id}) == len(others) + 2
    file.write_text(SOURCE + "# in other words\n")
    assert of_file(file).id != spec.id


def test_a_trial_of_own_code_has_no_network_and_its_worker_no_layer(tmp_path: Path) -> None:
    assert find_trained(make_spec(), tmp_path) is not None
    assert find_trained(varied(make_spec(), own_code=OWN), tmp_path) is None
    workload = without_layers(OWN)
    assert (workload.input_shape, workload.scale, workload.loss) == ((8, 8, 1), 1 / 255, "softmax-cross-entropy")
    assert not workload.weight_shapes()


def test_a_file_that_ends_the_program_is_an_error_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(RuntimeError, match="the file ends the program: SystemExit: 0"):
        function_of(tmp_path / "net.py", "make_model")


def test_the_files_annotations_are_what_they_are_in_the_users_program(tmp_path: Path) -> None:
    """A file is compiled without the `from __future__ import annotations` of the module that reads it."""
    (tmp_path / "net.py").write_text(
        "def make_model(classes: int):\n    return make_model.__annotations__['classes']\n"
    )
    assert function_of(tmp_path / "net.py", "make_model")(3) is int


def made(model: Any, logits: Any) -> Any:
    return make_checked(lambda classes: model, OWN, (Counter, np.ndarray), lambda model: logits)


def test_a_model_is_returned_if_it_and_its_logits_are_what_is_needed_else_the_error_says_what_is() -> None:
    model: Counter[str] = Counter()
    assert made(model, np.zeros((2, 10))) is model
    with pytest.raises(ValueError, match=r"returns \(2, 1000\) for 2 images, the data have 10 classes"):
        made(model, np.zeros((2, 1000)))
    with pytest.raises(TypeError, match="make_model returns a value of type int; a Counter of collections is needed"):
        made(7, np.zeros((2, 10)))
    with pytest.raises(TypeError, match="the model returns a value of type list; a ndarray of numpy is needed"):
        made(model, [0])
