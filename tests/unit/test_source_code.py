"""--workload FILE.py:FUNCTION: what cannot be imported is one line; an import's own weights go to every framework."""

from __future__ import annotations

import errno
import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import PROJECT, make_spec
from each import for_each
from pictured import QUIET, a_folder

from adapters.shared import call_maker
from runner import import_model, owned
from runner.__main__ import main
from runner.launch import Local
from runner.request import cli, inputs, own_data, parser
from runner.request.plan import build_plan
from runner.request.source_code import NOT_COMPARED, Importer, name_workload
from workloads import __main__ as program
from workloads.conditions import SETTINGS
from workloads.records.job import DRAWN, OWN, InputFile, Installation, TrialSpec
from workloads.records.network import OwnCode
from workloads.records.source_map import SOURCE, SOURCE_CODE, SOURCE_WEIGHTS, SourceMap
from workloads.source.graph import ImportRefused
from workloads.source.traced import REQUEST_FILE, TENSORS_FILE, TRACED_FILE, read_traced
from workloads.weights import load

CODE = "import torch\n\ndef make_model(classes):\n    raise SystemExit('the runner ran it')\n"
GENERATOR = np.random.default_rng(0)
TENSORS = {
    "conv.weight": GENERATOR.normal(size=(4, 1, 3, 3)).astype(np.float32),
    "fc.weight": GENERATOR.normal(size=(10, 4 * 6 * 6)).astype(np.float32),
    "fc.bias": GENERATOR.normal(size=10).astype(np.float32),
}
TRACED = {
    "model": "Net",
    "parameters": 4 * 9 + 10 * 144 + 10,
    "nodes": [
        {"name": "input", "operator": "input", "inputs": [], "settings": {}, "place": ""},
        {"name": "conv", "operator": "Conv2D", "inputs": ["input"], "place": "conv (Conv2d)",
         "settings": {"filters": 4, "kernel": [3, 3], "bias": False}},
        {"name": "flat", "operator": "Flatten", "inputs": ["conv"], "settings": {}, "place": "flat (Flatten)"},
        {"name": "fc", "operator": "Dense", "inputs": ["flat"], "settings": {"units": 10}, "place": "fc (Linear)"},
    ],
    "modules": {"conv": "conv", "flat": "flat", "fc": "fc"},
    "sources": [
        {"key": "conv/kernel", "source_name": "conv.weight", "axes": [2, 3, 1, 0], "part": []},
        {"key": "fc/kernel", "source_name": "fc.weight", "axes": [1, 0], "part": []},
        {"key": "fc/bias", "source_name": "fc.bias", "axes": [], "part": []},
    ],
}  # fmt: skip


def write_trace(folder: Path, **changes: Any) -> None:
    """Write what PyTorch's program writes."""
    (folder / TRACED_FILE).write_text(json.dumps(TRACED | changes))
    np.savez(folder / TENSORS_FILE, **TENSORS)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_net.py"
    path.write_text(CODE)
    return path


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stand in for PyTorch's interpreter; the requests that it got."""
    requests: list[dict[str, Any]] = []

    def run(importer: Importer, local: Local, framework: str, folder: Path, option: str) -> None:
        asked = json.loads((folder / REQUEST_FILE).read_text())
        requests.append(asked | {"beside": sorted(path.name for path in Path(asked["file"]).parent.iterdir())})
        write_trace(folder)

    monkeypatch.setattr(Importer, "_run", run)
    monkeypatch.setattr(Importer, "_launcher", lambda *_: Local("python", {}, PROJECT))
    return requests


def ask(tmp_path: Path, *words: object) -> cli.Request:
    shared = ("--framework", "pytorch", "--device", "cpu", "--results", tmp_path / "results", "--epochs", 1)
    options = parser.run_parser().parse_args(list(map(str, (*shared, *words))))
    return cli.build_request(options, PROJECT)


@for_each(
    "words, telling",
    [
        ("--workload {file}:make_modl", "defines no make_modl: did you mean make_model?"),
        ("--workload {folder}/none.py:make_model", "none.py: No such file or directory"),
        ("--workload {plain}:make_model", "name the code's framework: --from pytorch"),
        (
            "--workload {keras}:make_model",
            "name the code's framework: --from pytorch; give a Keras model as a .keras file",
        ),
        ("--workload {file}:make_model --from mxnet", "unknown from framework 'mxnet'"),
        ("--workload {folder}/net.pt", "holds weights, not a network"),
        ("--workload {folder}/net.weights.h5", "net.weights.h5: holds weights, not a network"),
        ("--workload {folder}/net.h5", "net.h5: is Keras' older format; load it with Keras 3 and save it as .keras"),
        ("--workload {folder}/net.pt:Net --from pytorch --input-shape 8 8 1", "net.pt: holds weights, not a network"),
        ("--workload {file} --from pytorch", "model in code, --workload {file}:FUNCTION; {file} defines make_model"),
        ("--workload {folder}/net.pth", "--workload FILE.py:FUNCTION --from pytorch imports it for all frameworks"),
        ("--workload osu-cnn --from pytorch", "--from: is for a model in code"),
        ("--workload osu-cnn --input-shape 8 8 1", "--input-shape: is for a model in code"),
        ("--workload osu-cnn --initial source", "workload osu-cnn has no weights of its own: leave it out"),
        ("--workload {file}:make_model --input-shape 0 8 1", "input_shape"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_nothing_is_started(
    words: str, telling: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, keras, results = tmp_path / "plain.py", tmp_path / "in_keras.py", tmp_path / "results"
    plain.write_text("def make_model():\n    pass\n")
    keras.write_text("import keras\ndef make_model():\n    pass\n")
    given = words.format(file=file, folder=tmp_path, plain=plain, keras=keras).split()
    assert main(["--framework", "pytorch", "--device", "cpu", "--results", str(results), *given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert telling.format(file=file) in line, line
    assert not results.exists()


def test_code_is_not_imported_outside_of_a_container_by_a_run_whose_workers_have_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("an interpreter was started")

    monkeypatch.setattr(Importer, "_launcher", start)
    words = ["--workload", f"{file}:make_model", "--dataset", "digits", "--results", str(tmp_path / "r")]
    assert main([*words, "--isolation", "docker"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    given = "--from pytorch --input-shape 8 8 1 --classes 10 --out my_net.json, then give --workload my_net.json"
    assert f"first python -m workloads import {file}:make_model {given}" in line
    assert f"--model pytorch={file}:make_model" in line and not (tmp_path / "r").exists()


def test_a_refusal_of_the_trace_is_one_line_with_the_other_way_to_train_the_model(
    file: Path, tmp_path: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "layer1.0 (PReLU): there is no layer record for it"
    monkeypatch.setattr(
        Importer, "_run", lambda self, local, framework, folder, option: write_trace(folder, refused=said)
    )
    assert main(["--workload", f"{file}:make_model", "--dataset", "digits", "--results", str(tmp_path / "r")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"runner: --workload {file}:make_model: {said}; ")
    assert f"--model pytorch={file}:make_model, which is compared with nothing" in line


def test_code_that_is_imported_gets_the_callers_folders_of_weights_and_proxies(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"TORCH_HOME": "/a", "HF_HOME": "/b", "XDG_CACHE_HOME": "/c", "HTTPS_PROXY": "http://p", "no_proxy": "d"}
    given["LD_LIBRARY_PATH"] = "/opt/module/lib"  # where an interpreter of a module finds its libraries
    seen: list[dict[str, str]] = []

    def run(*_: object, env: dict[str, str], **__: object) -> SimpleNamespace:
        seen.append(env)
        return SimpleNamespace(returncode=1, stderr=b"enough")

    for name, value in (given | {"TORCH_LOGS": "all"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(owned, "run", run)
    monkeypatch.setattr(Importer, "_launcher", lambda *_: Local("python", {}, PROJECT))
    assert main(["--workload", f"{file}:make_model", "--dataset", "digits", "--results", str(tmp_path / "r")]) == 2
    assert "could not be traced: enough" in capsys.readouterr().err
    assert seen[0].items() >= given.items() and "TORCH_LOGS" not in seen[0]


def test_the_code_is_asked_for_the_classes_and_the_images_of_the_data(
    file: Path, tmp_path: Path, traced: list[dict[str, Any]]
) -> None:
    request = ask(tmp_path, "--workload", f"{file}:make_model", "--dataset", "digits", "--seed", 7)
    (asked,) = traced
    del asked["file"], asked["beside"]
    assert asked == {"function": "make_model", "classes": 10, "input_shape": [8, 8, 1], "seed": 7}
    assert request.workload.name == request.study.workload == "my-net"
    assert request.workload.parameter_count == TRACED["parameters"]
    assert request.study.initial == OWN


def test_a_run_traces_the_file_alone_and_an_import_traces_it_with_those_next_to_it(
    file: Path, tmp_path: Path, traced: list[dict[str, Any]]
) -> None:
    (tmp_path / "blocks.py").write_text("")
    ask(tmp_path, "--workload", f"{file}:make_model", "--dataset", "digits")
    shape = ["--from", "pytorch", "--input-shape", "8", "8", "1", "--out", str(tmp_path / "kept.json")]
    assert import_model.main([f"{file}:make_model", *shape]) == 0
    alone, beside, once_more = traced
    assert alone["beside"] == once_more["beside"] == [file.name] and alone["file"] != str(file)
    assert beside["file"] == str(file) and {file.name, "blocks.py"} <= set(beside["beside"])


def test_a_file_that_needs_its_neighbours_is_told_that_a_run_takes_it_without_them(
    file: Path, tmp_path: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "make_model: ModuleNotFoundError: No module named 'blocks'"
    monkeypatch.setattr(
        Importer, "_run", lambda self, local, framework, folder, option: write_trace(folder, refused=said)
    )
    with pytest.raises(parser.BadInput, match="No module named 'blocks'; a run copies that file alone"):
        ask(tmp_path, "--workload", f"{file}:make_model", "--dataset", "digits")


def test_a_size_in_pytorchs_order_is_told_the_order(
    file: Path, tmp_path: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = "the model (Net): fails on images of 32 x 3 x 32"
    monkeypatch.setattr(Importer, "_run", lambda *values: write_trace(values[3], refused=failed))
    words = ("--workload", f"{file}:make_model", "--dataset", "digits", "--input-shape")
    with pytest.raises(parser.BadInput, match=r"--input-shape is ROWS COLUMNS CHANNELS: is it 32 32 3\?"):
        ask(tmp_path, *words, 3, 32, 32)
    with pytest.raises(parser.BadInput) as refused:
        ask(tmp_path, *words, 32, 32, 3)
    assert "ROWS COLUMNS CHANNELS" not in str(refused.value)


def test_code_that_loads_a_file_next_to_it_is_kept_without_its_origin_which_no_run_could_make(
    file: Path, tmp_path: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said, out = "make_model: FileNotFoundError: No such file: 'weights.pt'", tmp_path / "net.json"
    (tmp_path / "weights.pt").write_bytes(b"trained")

    def run(importer: Importer, local: Local, framework: str, folder: Path, option: str) -> None:
        asked = json.loads((folder / REQUEST_FILE).read_text())
        has_weights = Path(asked["file"]).with_name("weights.pt").exists()
        write_trace(folder, **({} if has_weights else {"refused": said}))

    monkeypatch.setattr(Importer, "_run", run)
    words = ["--from", "pytorch", "--input-shape", "8", "8", "1", "--out", str(out)]
    assert import_model.main([f"{file}:make_model", *words]) == 0
    missing = f"my_net.py makes no model without the files next to it: {said}"
    assert json.loads(out.read_text())["origin"] == {"missing": missing}
    request = ask(tmp_path, "--workload", out, "--dataset", "digits")
    assert f"{NOT_COMPARED}: {missing}" in capsys.readouterr().err
    assert request.imported is not None and request.imported.weights is not None


def test_code_that_makes_another_model_without_a_file_next_to_it_is_kept_without_its_origin(
    file: Path, tmp_path: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package has the name of the file next to it."""
    out = tmp_path / "net.json"
    (tmp_path / "blocks.py").write_text("")

    def run(importer: Importer, local: Local, framework: str, folder: Path, option: str) -> None:
        asked = json.loads((folder / REQUEST_FILE).read_text())
        write_trace(folder, **({} if Path(asked["file"]).with_name("blocks.py").exists() else {"model": "Other"}))

    monkeypatch.setattr(Importer, "_run", run)
    words = ["--from", "pytorch", "--input-shape", "8", "8", "1", "--out", str(out)]
    assert import_model.main([f"{file}:make_model", *words]) == 0
    missing = "my_net.py makes another model without the files next to it"
    assert json.loads(out.read_text())["origin"] == {"missing": missing}


def failing(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_an_import_that_is_interrupted_or_has_no_space_is_one_line(
    file: Path, tmp_path: Path, traced: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{file}:make_model", "--from", "pytorch", "--input-shape", "8", "8", "1"]
    kept = [*words, "--out", str(tmp_path / "net.json")]
    monkeypatch.setattr(Importer, "_run", failing(KeyboardInterrupt()))
    assert import_model.main(kept) == 130
    assert capsys.readouterr().err == "", "the command that started it says so"
    monkeypatch.setattr(tempfile, "TemporaryDirectory", failing(OSError(errno.ENOSPC, "No space left on device")))
    assert import_model.main(kept) == program.main(["describe", *words]) == 1
    assert capsys.readouterr().err.splitlines() == 2 * ["workloads: system: No space left on device"]
    monkeypatch.setattr(subprocess, "run", failing(KeyboardInterrupt()))
    assert program.main(["import", *kept]) == 130
    assert capsys.readouterr().err.strip() == "workloads: interrupted"


def test_images_that_are_smaller_than_the_models_input_are_stored_at_its_size(
    file: Path, tmp_path: Path, traced: list[Any]
) -> None:
    """The source's own module gets the stored images, with no layer that enlarges them."""
    photos = a_folder(tmp_path / "photos", size=lambda number: (5, 6))
    words = ("--workload", f"{file}:make_model", "--input-shape", 8, 8, 1, "--dataset", photos)
    request = own_data.prepare_images(ask(tmp_path, *words), QUIET)
    assert request.workload.input_shape == (8, 8, 1) and request.workload.layers[0].name == "conv"
    assert request.source is not None and (request.source.rows, request.source.columns) == (8, 8)
    kept = replace(request, imported=replace(request.imported, origin=None))  # type: ignore[type-var]
    assert own_data._choose_size(kept, [(5, 6)], "stretch") == (5, 6)
    assert own_data._choose_size(request, [(5, 6)], "stretch") == (8, 8)


def test_a_kept_network_is_compared_with_its_model_as_long_as_the_models_file_is_what_was_imported(
    file: Path, tmp_path: Path, traced: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "net.json"
    words = ["--from", "pytorch", "--input-shape", "8", "8", "1", "--out", str(out)]

    def tell_unproven() -> list[str]:
        capsys.readouterr()
        request = ask(tmp_path, "--workload", out, "--dataset", "digits")
        lines = [line for line in capsys.readouterr().err.splitlines() if NOT_COMPARED in line]
        assert bool(lines) == (request.imported is None or request.imported.origin is None)
        return lines

    assert import_model.main([f"{file}:make_model", *words]) == 0
    assert tell_unproven() == []
    kept = ask(tmp_path, "--workload", out, "--dataset", "digits")
    direct = ask(tmp_path, "--workload", f"{file}:make_model", "--dataset", "digits")
    assert kept.imported is not None and kept.imported.origin is not None and direct.imported is not None
    assert direct.imported.origin is not None and kept.imported.origin.source == direct.imported.origin.source
    (kept.results / "inputs").mkdir(exist_ok=True)
    written = inputs._what_is_trained(kept)
    assert (kept.results / written[SOURCE_CODE].path).read_text() == CODE and SOURCE_WEIGHTS not in written
    assert SourceMap.read(kept.results / written[SOURCE].path).initial == DRAWN  # the model gets the kept weights
    file.write_text(CODE + "\n")
    (line,) = tell_unproven()
    changed = "my_net.py was changed after the import; import the model again"
    assert line == f"runner: --workload {out}: {NOT_COMPARED}: {changed}"
    file.unlink()
    (line,) = tell_unproven()
    assert "my_net.py: No such file or directory; put it there, or import the model again" in line
    file.write_text("import csv\n" + CODE)
    (tmp_path / "csv").mkdir()
    assert import_model.main([f"{file}:make_model", *words]) == 0
    assert tell_unproven() == [], "a folder of data next to it has the name of a package"
    data = json.loads(out.read_text())
    del data["origin"]
    out.write_text(json.dumps(data))
    (line,) = tell_unproven()
    assert line.endswith("net.json does not name the model's file; import the model again")


def test_a_trial_keeps_why_its_network_is_compared_with_no_model_and_its_id_does_not_count_it(
    file: Path, tmp_path: Path, traced: list[Any]
) -> None:
    def plan_one(*words: object) -> TrialSpec:
        request = ask(tmp_path, "--dataset", "digits", "--batch-size", 8, *words)
        installed = {"pytorch": Installation("venv", "tests")}
        return next(iter(build_plan(request, installed, range(1), {}).trials))

    out = tmp_path / "net.json"
    words = ["--from", "pytorch", "--input-shape", "8", "8", "1", "--out", str(out)]
    assert import_model.main([f"{file}:make_model", *words]) == 0
    proven = plan_one("--workload", out, "--initial", DRAWN)
    file.write_text(CODE + "\n")
    changed = plan_one("--workload", out, "--initial", DRAWN)
    assert (proven.unproven, changed.unproven) == (
        "", "my_net.py was changed after the import; import the model again",
    )  # fmt: skip
    assert changed == proven and changed.id == proven.id
    assert plan_one("--workload", out, "--model", f"pytorch={file}:make_model").unproven == ""


def test_every_repeat_starts_from_the_sources_own_weights_or_from_drawn_ones(
    file: Path, tmp_path: Path, traced: list[Any]
) -> None:
    words = ("--workload", f"{file}:make_model", "--dataset", "digits")
    written: dict[str, dict[int, dict[str, InputFile]]] = {}
    for initial in (OWN, DRAWN):
        request = ask(tmp_path, *words, "--initial", initial)
        (request.results / "inputs").mkdir(exist_ok=True)
        written[initial] = inputs.write_repeats(request, inputs._what_is_trained(request), range(2))
    own, drawn = written[OWN], written[DRAWN]
    assert own[0]["weights"] == own[1]["weights"] and drawn[0]["weights"] != drawn[1]["weights"]
    results = tmp_path / "results"
    weights = load(results / own[0]["weights"].path)
    assert np.array_equal(weights["conv/kernel"], TENSORS["conv.weight"].transpose(2, 3, 1, 0))
    rows = TENSORS["fc.weight"].reshape(10, 4, 36).transpose(2, 1, 0).reshape(144, 10)
    assert np.array_equal(weights["fc/kernel"], rows), "features after a Flatten have our order"
    assert (results / own[0][SOURCE_CODE].path).read_text() == CODE
    assert {name: SourceMap.read(results / each[0][SOURCE].path).initial for name, each in written.items()} == {
        OWN: OWN, DRAWN: DRAWN,
    }  # fmt: skip
    assert SOURCE_WEIGHTS in own[0] and load(results / own[0][SOURCE_WEIGHTS].path).keys() == TENSORS.keys()


def test_initial_weights_are_a_condition_and_part_of_an_id() -> None:
    assert make_spec(initial=DRAWN).id == make_spec().id != make_spec(initial=OWN).id
    (setting,) = [each for each in SETTINGS if each.field == "initial"]
    assert setting.describe(make_spec()) == ""
    assert setting.describe(make_spec(initial=OWN)) == "the source's own"


def test_an_import_keeps_the_classes_that_the_function_got_and_the_logits_that_it_gave(tmp_path: Path) -> None:
    write_trace(tmp_path)
    code = OwnCode("pytorch", "net.py", "make_model", "0" * 12, 9, (8, 8, 1))
    origin = read_traced(tmp_path, code, b"", "net").origin
    assert origin is not None and (origin.source.code.classes, origin.source.code.logits) == (9, 10)


def test_parameters_that_were_lost_on_the_way_are_refused(tmp_path: Path) -> None:
    code = OwnCode("pytorch", "net.py", "make_model", "0" * 12, 10, (8, 8, 1))
    write_trace(tmp_path, parameters=2000)
    with pytest.raises(ImportRefused, match="the model has 2,000 parameters, its import 1,486"):
        read_traced(tmp_path, code, b"", "net")
    write_trace(tmp_path, sources=TRACED["sources"][1:])  # type: ignore[index]
    with pytest.raises(ImportRefused, match="the source has no weight for conv/kernel"):
        read_traced(tmp_path, code, b"", "net")


@for_each(
    "file, function, name",
    [
        ("my_net.py", "make_model", "my-net"),
        ("Nets.V2.py", "resnet50", "nets.v2-resnet50"),
        ("__.py", "make_model", "imported"),
    ],
)
def test_a_network_is_named_after_its_file_and_function(file: str, function: str, name: str) -> None:
    assert name_workload(Path(file), function) == name


def test_a_function_gets_the_classes_if_it_takes_an_argument() -> None:
    assert call_maker(lambda classes: classes, 3) == 3
    assert call_maker(lambda: "made", 3) == "made"
    assert call_maker(lambda *, pretrained=False: pretrained, 3) is False
    assert call_maker(lambda *more: more, 3) == (3,)
    assert call_maker(lambda width=64, num_classes=10: (width, num_classes), 3) == (64, 3)
    assert call_maker(lambda *, n_class=10: n_class, 3) == 3
    assert call_maker(lambda classes=10, /: classes, 3) == 3


def test_a_parameter_with_another_default_keeps_it() -> None:
    assert call_maker(lambda width=64: width, 3) == 64
    assert call_maker(lambda pretrained=False, **more: pretrained, 3) is False
    assert call_maker(lambda class_token=True, *more: (class_token, more), 3) == (True, ())
    with pytest.raises(TypeError, match="channels"):
        call_maker(lambda channels, classes: (channels, classes), 3)


def test_a_class_gets_the_classes_by_what_its_init_takes_whatever_its_bases_take() -> None:
    class Base:
        def __new__(cls, *arguments: Any, **named: Any) -> Any:
            return super().__new__(cls)

    class Net(Base):
        def __init__(self, width: int = 64) -> None:
            self.width = width

    class Head(Base):
        def __init__(self, classes: int) -> None:
            self.classes = classes

    assert call_maker(Net, 3).width == 64 and call_maker(Head, 3).classes == 3
