from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from workloads.datasets import DATASETS
from workloads.networks import WORKLOADS
from workloads.study import Series, Study, StudyError, is_path, list_studies
from workloads.study_file import parse_study, read

THESIS_BATCH_SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


@pytest.mark.parametrize(
    ("name", "dataset", "repeats", "window_s", "timeout_s"),
    [("osu-2020", "cifar10", 3, 10, 3600), ("quick", "digits", 1, 5, None)],
)
def test_a_shipped_study_says_what_is_documented(
    name: str, dataset: str, repeats: int, window_s: float, timeout_s: float | None
) -> None:
    study = read(list_studies()[name])
    assert (study.name, study.workload, study.dataset) == (name, "osu-cnn", dataset)
    assert (study.batch_sizes, study.epochs, study.repeats) == (THESIS_BATCH_SIZES, 10, repeats)
    assert (study.optimizer_spec.name, study.optimizer_spec.learning_rate) == ("momentum", 0.01)
    assert (study.window_s, study.timeout_s) == (window_s, timeout_s)
    assert (study.frameworks, study.last_batch, study.profiles, study.feed) == (("all",), "keep", ("default",), "host")
    assert study.summary


def test_every_shipped_study_names_a_known_workload_and_data_set() -> None:
    assert set(list_studies()) >= {"osu-2020", "quick"}
    for path in list_studies().values():
        study = read(path)
        assert study.workload in WORKLOADS
        assert study.dataset in DATASETS


def written(folder: Path, *lines: str) -> Path:
    path = folder / "mine.toml"
    path.write_text("\n".join(("# mine", 'summary = "x"', *lines)) + "\n", encoding="utf-8")
    return path


VALUES: dict[str, tuple[str, Any]] = {  # of each key: as TOML says it, as it is read
    "workload": ('"w"', "w"),
    "dataset": ('"d"', "d"),
    "frameworks": ('["a", "b"]', ("a", "b")),
    "batch_sizes": ("[\n  2,\n  1,\n]", (2, 1)),
    "epochs": ("2", 2),
    "repeats": ("3", 3),
    "seed": ("4", 4),
    "optimizer": ('"adam"', "adam"),
    "learning_rate": ("0.5", 0.5),
    "weight_decay": ("0.0", 0.0),
    "schedule": ('"step"', "step"),
    "warm_up": ("0.25", 0.25),
    "scale_learning_rate": ('"sqrt"', "sqrt"),
    "base_batch_size": ("32", 32),
    "augment": ('"flip-crop"', "flip-crop"),
    "deterministic": ("true", True),
    "accumulate": ("7", 7),
    "devices": ("2", 2),
    "last_batch": ('"drop"', "drop"),
    "fit": ('"pad"', "pad"),
    "skip_unreadable": ("true", True),
    "test_all": ("true", True),
    "test_folder": ('"val"', "val"),
    "pixel_range": ("[0, 4095]", (0.0, 4095.0)),
    "from_framework": ('"pytorch"', "pytorch"),
    "input_shape": ("[64, 64, 3]", (64, 64, 3)),
    "initial": ('"drawn"', "drawn"),
    "profiles": ('["default"]', ("default",)),
    "precisions": ('["float32", "bfloat16"]', ("float32", "bfloat16")),
    "feed": ('"device"', "device"),
    "device": ('"cpu"', "cpu"),
    "threads": ("5", 5),
    "window_s": ("0.5", 0.5),
    "timeout_s": ("1.5", 1.5),
    "cool_down_s": ("2.5", 2.5),
}


def test_every_key_is_read(tmp_path: Path) -> None:
    lines = [f"{key} = {told}" for key, (told, _) in VALUES.items()]
    study = read(written(tmp_path, *lines, "[[series]]", 'name = "one"', "epochs = 1"))
    read_as = {key: value for key, (_, value) in VALUES.items()}
    assert study == Study("mine", "x", **read_as, series=(Series("one", (("epochs", 1),)),))
    assert {"name", "summary", "blocks", "series", *VALUES} == {field.name for field in fields(Study)}


def test_blocks_are_read_and_not_beside_series(tmp_path: Path) -> None:
    blocks = "blocks = [[127, 128, 129], [255, 256, 257]]"
    assert read(written(tmp_path, blocks)).blocks == ((127, 128, 129), (255, 256, 257))
    with pytest.raises(StudyError, match=r"mine.toml, line 3: blocks: a study with series cannot have blocks"):
        read(written(tmp_path, blocks, "[[series]]", 'name = "one"'))


@pytest.mark.parametrize("key", ["learning_rate", "window_s", "timeout_s"])
def test_a_whole_number_means_the_same_as_its_decimal(tmp_path: Path, key: str) -> None:
    """A trial's id is made from the JSON of these values, where 3 and 3.0 differ."""
    assert repr(getattr(read(written(tmp_path, f"{key} = 30")), key)) == "30.0"


@pytest.mark.parametrize(
    ("line", "key", "told"),
    [
        ("epoch = 3", "epoch", "unknown key"),
        ('name = "other"', "name", "unknown key"),
        ("[optimizer_options]\nmomentum = 1", "optimizer_options", "unknown key"),
        ('"odd key" = 3', "odd key", "unknown key"),
        ('optimizer.name = "adam"', "optimizer", "Expected `str`, got `object`; known: sgd, momentum"),
        ("[options]  # of mine", "options", "unknown key"),
        ('epochs = "3"', "epochs", "Expected `int`, got `str`"),
        ("epochs = 3.0", "epochs", "Expected `int`, got `float`"),
        ("epochs = true", "epochs", "Expected `int`, got `bool`"),
        ("window_s = false", "window_s", "Expected `float`, got `bool`"),
        ('threads = "all"', "threads", "Expected `int | null`, got `str`"),
        ("workload = 1", "workload", "Expected `str`, got `int`"),
        ('summary = ["a"]', "summary", "Expected `str`, got `array`"),
        ("batch_sizes = 4", "batch_sizes", "Expected `array`, got `int`"),
        ("batch_sizes = [4, 8.0]", "batch_sizes", "Expected `int`, got `float` - at `$[1]`"),
        ("batch_sizes = [[4], [8]]", "batch_sizes", "Expected `int`, got `array` - at `$[0]`"),
        ("frameworks = [1]", "frameworks", "Expected `str`, got `int` - at `$[0]`"),
        ('optimizer = "lion"', "optimizer", "Invalid enum value 'lion'; known: sgd, momentum, nesterov, adam"),
        ('schedule = "cosin"', "schedule", "Invalid enum value 'cosin'; did you mean cosine?; known: constant"),
        ('profiles = ["default", "tunde"]', "profiles", "Invalid enum value 'tunde' - at `$[1]`; did you mean tuned?"),
        ('augment = "flip"', "augment", "Invalid enum value 'flip'; did you mean flip-crop?"),
        ("weight_decay = -0.1", "weight_decay", "Expected `float` >= 0"),
        ('weight_decay = 0.1\noptimizer = "adam"', "weight_decay", "adam has none; sgd, momentum"),
        ("warm_up = -1", "warm_up", "Expected `float` >= 0"),
        ("warm_up = 2.5", "warm_up", "2.5 is neither a share of all steps nor a whole number of steps"),
        ("base_batch_size = 32", "base_batch_size", "nothing is scaled: give scale_learning_rate, too"),
        ('base_batch_size = 0\nscale_learning_rate = "sqrt"', "base_batch_size", "Expected `int` >= 1"),
        ('scale_learning_rate = "lineal"', "scale_learning_rate", "did you mean linear?"),
        ('warm_up = 5\nschedule = "one-cycle"', "warm_up", "one-cycle has its own warm-up"),
        ('last_batch = "pad"', "last_batch", "Invalid enum value 'pad'; known: keep, drop"),
        ('feed = "disk"', "feed", "Invalid enum value 'disk'; known: host, device"),
        ("epochs = 0", "epochs", "Expected `int` >= 1"),
        ("repeats = -1", "repeats", "Expected `int` >= 1"),
        ("threads = 0", "threads", "Expected `int` >= 1"),
        ("learning_rate = 0.0", "learning_rate", "Expected `float` > 0"),
        ("learning_rate = nan", "learning_rate", "Expected `float` > 0"),
        ("window_s = inf", "window_s", "Expected `float` <= 1000000000"),
        ("timeout_s = -5", "timeout_s", "Expected `float` > 0"),
        ("seed = -1", "seed", "Expected `int` >= 0"),
        ("batch_sizes = [8, 0]", "batch_sizes", "Expected `int` >= 1 - at `$[1]`"),
        ("batch_sizes = [4, 8, 4]", "batch_sizes", "twice"),
        ('frameworks = ["numpy", "numpy"]', "frameworks", "twice"),
        ("batch_sizes = []", "batch_sizes", "Expected `array` of length >= 1"),
        ("frameworks = []", "frameworks", "Expected `array` of length >= 1"),
    ],
)
def test_a_wrong_line_is_told_with_file_line_and_key(tmp_path: Path, line: str, key: str, told: str) -> None:
    if key == "summary":
        path = tmp_path / "mine.toml"
        path.write_text(f"\n\n{line}\n")
    else:
        path = written(tmp_path, line)
    with pytest.raises(StudyError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 3: {key}: ")
    assert told in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("epochs 3", "line 3"),
        ("epochs = 3\nepochs = 4", "line 4"),
        ('workload = "w', "line 3"),
        ("batch_sizes = [4,", "at end of document"),
    ],
)
def test_broken_toml_is_told_with_file_and_place(tmp_path: Path, line: str, where: str) -> None:
    path = written(tmp_path, line)
    with pytest.raises(StudyError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: not valid TOML")
    assert where in message
    assert "\n" not in message


@pytest.mark.parametrize("kind", ["missing", "a folder", "no utf-8"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine.toml"
    if kind == "a folder":
        path.mkdir()
    elif kind == "no utf-8":
        path.write_bytes(b'summary = "\xff"')
    with pytest.raises(StudyError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: cannot be read")
    assert "\n" not in str(caught.value)


def test_another_optimizer_brings_its_own_rate_and_decay_unless_they_are_given() -> None:
    # another optimizer brings its own learning rate
    study = Study("s", optimizer="momentum", learning_rate=0.02)
    assert study.changed(optimizer="adam").optimizer_spec.learning_rate == 0.001
    assert study.changed(optimizer="sgd").optimizer_spec.learning_rate == 0.01
    # another optimizer brings its own weight decay
    study = Study("s", optimizer="adamw")
    assert study.optimizer_spec.weight_decay == 0.01
    assert study.changed(weight_decay=0.1).changed(optimizer="rmsprop").optimizer_spec.weight_decay == 0.0
    assert study.changed(optimizer="momentum", weight_decay=5e-4).optimizer_spec.weight_decay == 5e-4
    # an explicit learning rate wins over the optimizers own
    study = Study("s", optimizer="momentum", learning_rate=0.02)
    assert study.changed(optimizer="adam", learning_rate=0.3).optimizer_spec.learning_rate == 0.3
    assert study.changed(learning_rate=0.3).optimizer_spec.learning_rate == 0.3
    # what is not changed stays
    study = Study("s", optimizer="momentum", learning_rate=0.02, epochs=7)
    assert study.changed(optimizer="momentum", repeats=2) == Study("s", learning_rate=0.02, epochs=7, repeats=2)
    assert study.repeats == 1
    # a change out of range is refused
    with pytest.raises(StudyError, match="epochs"):
        Study("s").changed(epochs=0)


def test_what_is_named_by_its_path_lies_beside_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('workload = "nets/my_cnn.py"')
    assert read(tmp_path / "mine.toml").workload == str(tmp_path / "nets" / "my_cnn.py")
    (tmp_path / "mine.toml").write_text('workload = "/elsewhere/my_cnn.py"')
    assert read(tmp_path / "mine.toml").workload == "/elsewhere/my_cnn.py"
    for named, is_named in (("./photos", True), ("../photos", True), ("mine.npz", True), ("digits", False)):
        path = written(tmp_path, f'dataset = "{named}"')
        assert read(path).dataset == (f"{tmp_path}/{named}" if is_named else named)
        monkeypatch.chdir(tmp_path)
        dataset = read(Path("mine.toml")).dataset
        assert is_path(dataset) == is_named and (tmp_path / named).resolve() == Path(dataset).resolve()
    assert read(written(tmp_path, f'dataset = "{tmp_path}/x"')).dataset == f"{tmp_path}/x"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("window_s = 600", "window_s: 600 s do not fit into the 600 s of timeout_s"),
        ("epochs = 1_000_000_000", "epochs: 1,000,000,000 take 10,000 s on any machine"),
        ("repeats = 1_000_000_000", "repeats: 9,000,000,000 trials"),
        (f"batch_sizes = {list(range(1, 100_002))}", "batch_sizes: 100,001 trials, of 100,001 cells in 1 repeats"),
        (f"batch_sizes = [{10**18}]", "batch_sizes: Expected `int` <= 2147483647"),
        (f"epochs = {10**400}", "epochs: Expected `int` <= 2147483647"),
        (f"learning_rate = {10**400}", "learning_rate: Number out of range"),
        ("epochs = 1" + 5000 * "0", "not valid TOML: Exceeds the limit"),
        ("a = " + 5000 * "[", "not valid TOML: nested without end"),
        ("a = " + 2000 * "{a = " + "1" + 2000 * "}", "not valid TOML: nested without end"),
        ('"a\\n' + 200 * "b" + '" = 1', "unknown key"),
    ],
)
def test_what_no_machine_can_finish_or_read_is_one_line(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(StudyError, match=re.escape(told)) as refused:
        read(written(tmp_path, content))
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 700


def test_what_is_no_file_is_one_line_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path, tmp_path / "pipe.toml", tmp_path / "none.toml", Path("a\0b.toml")):
        with pytest.raises(StudyError, match="cannot be read"):
            read(path)


SERIES = (
    "[[series]]",
    'name = "plain"',
    'optimizer = "sgd"',
    "learning_rate = 0.05",
    "",
    "[[series]]",
    'name = "wide"',
)


def test_each_series_is_the_study_with_its_own_keys(tmp_path: Path) -> None:
    study = read(written(tmp_path, "learning_rate = 0.2", "epochs = 3", *SERIES, "batch_sizes = [2, 4]"))
    plain, wide = study.parts.values()
    assert list(study.parts) == ["plain", "wide"]
    assert (plain.optimizer, plain.learning_rate, plain.epochs, plain.series) == ("sgd", 0.05, 3, ())
    assert (wide.optimizer, wide.learning_rate, wide.batch_sizes) == ("momentum", 0.2, (2, 4))
    assert study.changed(epochs=5).parts["wide"].epochs == 5, "what no series has is changed in all"
    assert Study("s").parts == {"": Study("s")}


def test_a_rate_and_a_decay_of_the_study_hold_for_a_series_with_an_optimizer_of_its_own(tmp_path: Path) -> None:
    own = (*SERIES, 'optimizer = "adam"')
    rates = {name: part.optimizer_spec.learning_rate for name, part in read(written(tmp_path, *own)).parts.items()}
    assert rates == {"plain": 0.05, "wide": 0.001}, "Adam's own: nothing was given"
    study = read(written(tmp_path, "learning_rate = 0.2", *own))
    assert study.parts["wide"].optimizer_spec.learning_rate == 0.2
    assert study.changed(learning_rate=0.5).parts["wide"].optimizer_spec.learning_rate == 0.5
    study = read(written(tmp_path, 'optimizer = "adamw"', "weight_decay = 0.2", *SERIES))
    assert study.parts["plain"].optimizer_spec.weight_decay == 0.2
    with pytest.raises(StudyError, match="series wide: weight_decay: adam has none; sgd, momentum"):
        read(written(tmp_path, "weight_decay = 0.2", *own))


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        (["[[series]]", "epochs = 2"], 3, "name: each series needs a name of 1 to 40 characters of a-z, 0-9, . and -"),
        (["[[series]]", 'name = "A b"'], 4, "got 'A b'"),
        ([*SERIES, "epochs = 0"], 10, "series wide: epochs: Expected `int` >= 1"),
        ([*SERIES, "epocs = 2"], 10, "epocs: not a key of a series; these are: name, workload, dataset, frameworks,"),
        ([*SERIES, "repeats = 2"], 10, "repeats: not a key of a series"),
        (["learning_rate = 0.1", *SERIES, 'optimizer = "adom"'], 11, "did you mean adam?"),
        ([*SERIES, "[[series]]", 'name = "wide"'], 11, "name: two series are called wide"),
        ([*SERIES, "[[series]]", 'name = "same"', "batch_sizes = [7]"], 11, "name: trains the same as wide"),
        (["series = 3"], 3, "series: is not a list of tables: begin each with [[series]]"),
    ],
)
def test_what_is_wrong_in_a_series_is_named_with_its_line(
    tmp_path: Path, lines: list[str], line: int, reason: str
) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(StudyError, match=re.escape(reason)) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, line {line}: ")
    assert "\n" not in str(error.value)


def test_a_file_may_begin_with_the_mark_of_its_encoding_and_lines_are_counted_as_before() -> None:
    mark = b"\xef\xbb\xbf"
    assert parse_study(mark + b'workload = "tiny"\n', Path("mine.toml")).workload == "tiny"
    with pytest.raises(StudyError, match=r"mine\.toml, line 1: epoch: unknown key"):
        parse_study(mark + b"epoch = 3\n", Path("mine.toml"))
