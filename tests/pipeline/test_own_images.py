"""Custom images, by the real command line."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pets_archive
import pytest
from conftest import ROOT, bare_environment, by_cell, run_runner
from copied import run_in
from PIL import Image

from runner.data.cache import CACHE_VARIABLE
from runner.project import XDG_VARIABLE
from workloads.records import network
from workloads.records.check_name import CheckName

NETWORK = """
from workloads.layers import Conv2D, Dense, Flatten, Relu
from workloads.spec import Workload

MINE = Workload(
    name="mine",
    summary="one convolution",
    input_shape=(24, 24, 3),
    loss="binary-cross-entropy",
    layers=(
        Conv2D("conv", filters=3, kernel=(4, 4), stride=4), Relu("relu"), Flatten("flatten"), Dense("dense", units=1)
    ),
)
"""
CLASSES = ("cat", "dog")


def save(path: Path, label: int, size: tuple[int, int], mode: str = "RGB") -> None:
    """Save a noisy picture of this (height, width) in which one channel encodes the class; each path has another."""
    pixels = np.random.default_rng([label, *size, *str(path).encode()]).integers(0, 80, (*size, 3), np.uint8)
    pixels[..., label] += 150
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).convert(mode).save(path)


def a_folder(root: Path, size: Callable[[int], tuple[int, int]], modes: tuple[str, ...] = ("RGB",)) -> Path:
    """Write 40 images to train on and 10 for the test."""
    for split, count in (("train", 20), ("test", 5)):
        for label, name in enumerate(CLASSES):
            for number in range(count):
                mode = modes[number % len(modes)]
                suffix = ".jpg" if mode == "CMYK" else ".png"
                save(root / split / name / f"{number}{suffix}", label, size(number), mode)
    return root


@pytest.fixture(autouse=True)
def no_cache_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CACHE_VARIABLE, XDG_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return tmp_path / "photos"


def cached(photos: Path) -> list[Path]:
    return [path for path in (photos.parent / "results" / "cache").glob("*") if path.is_dir()]


def asked(tmp_path: Path, *more: object, framework: str = "numpy", batch_size: int = 10) -> tuple[object, ...]:
    (tmp_path / "my_cnn.py").write_text(NETWORK)
    return (
        "--framework", framework, "--device", "cpu", "--batch-size", batch_size, "--epochs", 6, "--window", 0.3,
        "--isolation", "here", "--workload", tmp_path / "my_cnn.py", "--results", tmp_path / "results", *more,
    )  # fmt: skip


def the_trial(results: Path) -> dict[str, Any]:
    (result,) = by_cell(results).values()
    assert result["status"] in ("ok", "contended"), result["reason"]  # what others take of the cores is not asked here
    gates = [check["passed"] for check in result["checks"] if check["name"] == CheckName.GATE]
    assert gates == [True]
    return result


def test_a_folder_of_many_modes_and_sizes_is_trained_judged_and_reported(
    photos: Path, tmp_path: Path, forgetful: Path
) -> None:
    a_folder(photos, lambda number: (30 + number, 60 - number), ("RGB", "RGBA", "P", "CMYK"))
    (photos / "validation" / "cat").mkdir(parents=True)
    shutil.copy(photos / "train/cat/0.png", photos / "validation/cat/0.png")
    (photos / "train" / "cat" / "notes.txt").write_text("none")
    command = asked(tmp_path, "--dataset", photos, "--fit", "crop")
    planned = run_in(forgetful, *command, "--plan")
    assert planned.returncode == 0 and "1 trial to run" in planned.stdout and len(cached(photos)) == 1
    written = cached(photos)[0].stat().st_mtime_ns
    done = run_in(forgetful, *command)
    assert cached(photos)[0].stat().st_mtime_ns == written  # a plan has decoded what the run takes
    assert "validation/ is not read" in done.stdout and "1 file is not .jpg" in done.stdout, done.stderr
    assert "train/: 40 images to train on" in done.stdout and "test/: 10 images to test with" in done.stdout
    result = the_trial(tmp_path / "results")
    source = result["spec"]["task"]["source"]
    assert (source["train"], source["test"], source["rows"], source["columns"]) == (40, 10, 24, 24)
    assert (source["fit"], source["drawn_test"], source["skipped"]) == ("crop", False, 0)
    assert result["epochs"][-1]["images"] == 40 and result["epochs"][-1]["test_accuracy"] == 1
    report = (tmp_path / "results" / "report" / "report.md").read_text()
    assert f"mine on {photos.name}" in report and f"digest {source['content']}" in report
    assert "fit crop (the largest part in the middle), bilinear, stored as 24 x 24; test split as given" in report
    (array,) = (path / "train_images.npy" for path in cached(photos))
    assert array.samefile(tmp_path / "results" / result["spec"]["inputs"]["train_images"]["path"])


def test_a_test_split_that_was_drawn_and_images_left_out_stand_in_the_report(
    photos: Path, tmp_path: Path, forgetful: Path
) -> None:
    a_folder(photos, lambda number: (24, 24))
    shutil.rmtree(photos / "test")
    (photos / "train/cat/broken.png").write_bytes(b"no image")
    refused = run_in(forgetful, *asked(tmp_path, "--dataset", photos))
    _, line = refused.stderr.splitlines()  # the first: a copy of the project has no commit
    assert refused.returncode == 2 and not cached(photos)
    assert "1 image cannot be decoded: train/cat/broken.png (not a JPEG" in line
    done = run_in(forgetful, *asked(tmp_path, "--dataset", photos, "--skip-unreadable"))
    assert "1 image cannot be decoded and left out: train/cat/broken.png (not a JPEG" in done.stdout
    result = the_trial(tmp_path / "results")
    source = result["spec"]["task"]["source"]
    assert (source["train"], source["test"], source["skipped"], source["drawn_test"]) == (
        33,
        7,
        1,
        True,
    )  # it was drawn for the test
    report = (tmp_path / "results" / "report" / "report.md").read_text()
    assert "test split one in five of each class, drawn by the runner; left out 1 that could not be decoded" in report


def test_the_users_own_cats_and_dogs_are_trained_on_twice_an_epoch_and_tested_with_what_is_left_over(
    tmp_path: Path, forgetful: Path
) -> None:
    archive = pets_archive.write(tmp_path / "data", count=1002, size=(24, 24))
    more = ("--dataset", "cats-dogs", "--data-dir", archive, "--augment", "zoom-copy", "--test-all", "--epochs", 2)
    done = run_in(forgetful, *asked(tmp_path, *more, batch_size=64))
    result = the_trial(tmp_path / "results")
    source = result["spec"]["task"]["source"]
    assert (source["train"], source["test"], source["rows"], source["skipped"]) == (2400, 404, 24, 0), done.stderr
    assert [(epoch["images"], epoch["steps"]) for epoch in result["epochs"]] == [(2400, 38)] * 2
    assert result["epochs"][-1]["test_accuracy"] > 0.9  # one channel encodes the class
    report = (tmp_path / "results" / "report" / "report.md").read_text()
    assert "mine on cats-dogs (zoom-copy)" in report and "2400 to train on and 404 to test with" in report
    assert "zoom-copy: each training image, and once more at five quarters of its size" in report


def test_images_smaller_than_the_network_takes_are_enlarged_by_its_first_layer(
    photos: Path, tmp_path: Path, forgetful: Path
) -> None:
    a_folder(photos, lambda number: (6, 8))
    run_in(forgetful, *asked(tmp_path, "--dataset", photos))
    result = the_trial(tmp_path / "results")
    stored = network.read(tmp_path / "results" / result["spec"]["inputs"]["network"]["path"])
    assert stored.input_shape == (6, 8, 3) and stored.layers[0].output_shape((6, 8, 3)) == (24, 24, 3)
    images = np.load(tmp_path / "results" / result["spec"]["inputs"]["train_images"]["path"])
    assert images.shape == (40, 6, 8, 3) and np.array_equal(
        images[0], np.asarray(Image.open(photos / "train/cat/0.png"))
    )
    report = (tmp_path / "results" / "report" / "report.md").read_text()
    assert "stored as 6 x 8" in report and "enlarged by the network's first layer" in report


def test_an_array_file_is_trained_on_by_a_study_that_lies_beside_it(
    photos: Path, tmp_path: Path, unreported: Path
) -> None:
    a_folder(photos / "made", lambda number: (24, 24))
    arrays: dict[str, Any] = {}
    for split in ("train", "test"):
        paths = [path for name in CLASSES for path in sorted((photos / "made" / split / name).iterdir())]
        arrays[f"x_{split}"] = np.stack([np.asarray(Image.open(path)) for path in paths])
        arrays[f"y_{split}"] = np.array([[CLASSES.index(path.parent.name)] for path in paths])
    np.savez_compressed(f"{photos}.npz", **arrays)
    study = tmp_path / "study.toml"
    study.write_text(f'dataset = "{photos.name}.npz"\nworkload = "my_cnn.py"\nfit = "pad"\n')
    command = asked(tmp_path)
    at = command.index("--workload")
    run_in(unreported, "--study", study, *command[:at], *command[at + 2 :])
    result = the_trial(tmp_path / "results")
    assert result["spec"]["task"]["dataset"] == photos.name and result["spec"]["task"]["source"]["fit"] == "pad"
    images = np.load(tmp_path / "results" / result["spec"]["inputs"]["test_images"]["path"])
    assert np.array_equal(images, arrays["x_test"])


def test_a_published_set_is_enlarged_on_the_device_where_a_fit_is_asked_for(tmp_path: Path, unreported: Path) -> None:
    command = asked(tmp_path, "--dataset", "digits-64", "--fit", "stretch")
    (tmp_path / "my_cnn.py").write_text(NETWORK.replace("binary", "softmax").replace("units=1", "units=10"))
    run_in(unreported, *command)
    result = the_trial(tmp_path / "results")
    images = np.load(tmp_path / "results" / result["spec"]["inputs"]["train_images"]["path"])
    assert images.shape == (64, 8, 8, 3) and result["spec"]["task"]["source"]["content"] == ""


def three_classes(folder: Path) -> object:
    save(folder / "train/emu/0.png", 0, (8, 8))
    return folder


def one_class(folder: Path) -> object:
    shutil.rmtree(folder / "train/dog")
    return folder


def empty_class(folder: Path) -> object:
    (folder / "train/emu").mkdir()
    return folder


def in_a_file(folder: Path) -> object:
    folder.write_bytes(b"")
    return folder


def pickles(folder: Path) -> object:
    np.savez(f"{folder}.npz", x_train=np.array([None]), y_train=[0], x_test=[0], y_test=[0])
    return f"{folder}.npz"


def pixel(folder: Path) -> object:
    save(folder / "train/cat/pixel.png", 0, (1, 1))
    return folder


def bomb(folder: Path) -> object:
    Image.new("1", (20_000, 20_000)).save(folder / "train/cat/bomb.png")
    return folder


BAD: dict[str, tuple[Callable[[Path], object], bool, str]] = {
    "a path that is not there": (lambda folder: folder, False, "not found"),
    "a path that is a file": (in_a_file, False, "a file, but not .npz"),
    "more classes than outputs": (three_classes, True, "has 3 classes, more than the 2 that workload mine has"),
    "one class": (one_class, True, "train/ has 1 class folders"),
    "an empty class": (empty_class, True, "class train/emu has no"),
    "an array file with pickles": (pickles, False, "x_train holds Python objects, which are pickles"),
    "an image of one pixel": (pixel, True, "train/cat/pixel.png (1 x 1 pixels)"),
    "a decompression bomb": (bomb, True, "train/cat/bomb.png (Image size (400000000 pixels) exceeds limit"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_images_are_one_line_and_nothing_is_started(name: str, photos: Path, tmp_path: Path) -> None:
    change, exists, telling = BAD[name]
    if exists:
        a_folder(photos, lambda number: (8, 8))
    done = run_runner(*asked(tmp_path, "--dataset", change(photos)))
    assert done.returncode == 2 and not done.stdout, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("runner: data set") and telling in line
    assert not (tmp_path / "results" / "trials").exists() and not cached(photos)


def test_doubtful_images_are_data_of_the_trial_and_stand_in_the_report(
    photos: Path, tmp_path: Path, forgetful: Path
) -> None:
    """Every test image is a training image; all have 12 bits in 16."""
    for split, count in (("train", 8), ("val", 3)):
        for label, name in enumerate(CLASSES):
            for number in range(count):
                grey = np.random.default_rng([label, number]).integers(0, 4096, (24, 24), np.uint16)
                (photos / split / name).mkdir(parents=True, exist_ok=True)
                Image.fromarray(grey).save(photos / split / name / f"{number}.png")
    done = run_in(forgetful, *asked(tmp_path, "--dataset", photos))
    assert "6 of 6 images of the test are identical to training images" in done.stdout, done.stderr
    assert "22 of 22 images lost nearly all of their contrast" in done.stdout
    source = the_trial(tmp_path / "results")["spec"]["task"]["source"]
    assert source["findings"] == {
        "tested_on_trained": 6, "two_labels": 0, "repeated_train": 0, "repeated_test": 0, "faded": 22, "dim": 0,
    }  # fmt: skip
    assert source["test_folder"] == "val" and source["pixel_range"] is None
    report = (tmp_path / "results" / "report" / "report.md").read_text()
    assert "test split as given, in val/" in report
    assert "doubtful images 6 of the test identical to training images, 22 without nearly all" in report
    assert f"Accuracies on {photos.name} are doubtful. Its images include 6 of the test identical" in report
    ranged = run_in(forgetful, *asked(tmp_path, "--dataset", photos, "--pixel-range", 0, 4095, "--plan"))
    assert "contrast" not in ranged.stdout and len(cached(photos)) == 2, ranged.stderr


def in_a_file_system_of_its_own(root: Path, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command where `root` cannot be written: permissions mean nothing to the superuser."""
    read_only = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", read_only, str(root), *command],
        env=bare_environment() | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_an_installation_that_cannot_be_written_trains_on_ones_own_images(photos: Path, tmp_path: Path) -> None:
    if in_a_file_system_of_its_own(ROOT, ["true"]).returncode:
        pytest.skip("this user may make no mount namespace")
    a_folder(photos, lambda number: (24, 24))
    command = [sys.executable, "-B", "-m", "runner", *map(str, asked(tmp_path, "--dataset", photos))]
    done = in_a_file_system_of_its_own(ROOT, command)
    the_trial(tmp_path / "results")
    assert len(cached(photos)) == 1, done.stderr
    inside = ROOT / "cache-that-nobody-can-make"
    refused = in_a_file_system_of_its_own(ROOT, command, **{CACHE_VARIABLE: str(inside)})
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert f"cannot be kept in {inside} ({CACHE_VARIABLE}): Read-only file system" in refused.stderr


def test_a_folder_named_without_a_slash_is_told_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    done = run_runner(*asked(tmp_path, "--dataset", "photos"), cwd=tmp_path)
    assert done.returncode == 2 and "for the folder of that name write ./photos" in done.stderr


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(photos: Path, tmp_path: Path) -> None:
    """No file may be larger than the limit: writing fails as on a full disk."""
    a_folder(photos, lambda number: (24, 24))

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    command = [sys.executable, "-m", "runner", *map(str, asked(tmp_path, "--dataset", photos))]
    done = subprocess.run(command, cwd=ROOT, preexec_fn=small_files, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert "train_images.npy: File too large" in line and not cached(photos)


LIMIT_BYTES, COUNT = 500 * 2**20, 4000  # of 224 x 224 x 3 bytes: 574 MiB


def test_a_set_larger_than_memory_is_stored_and_trained_on_where_it_stays_with_the_host(
    photos: Path, tmp_path: Path, unreported: Path
) -> None:
    """RLIMIT_DATA counts a process's private memory, and no map of a file that it shares with the kernel's cache."""
    labels = np.arange(COUNT) % 2
    with zipfile.ZipFile(f"{photos}.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, values in (("y_train", labels), ("y_test", labels[:20])):
            with file.open(f"{name}.npy", "w") as member:
                np.save(member, values)
        for name, count in (("x_train", COUNT), ("x_test", 20)):
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, 224, 224, 3)}
                np.lib.format.write_array_header_1_0(member, header)
                for label in labels[:count]:
                    member.write(bytes([40 + 90 * label, 7, 130 - 90 * label, 3]) * (224 * 224 * 3 // 4))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))

    large = NETWORK.replace("(24, 24, 3)", "(224, 224, 3)").replace("(4, 4), stride=4", "(32, 32), stride=32")
    for feed in ("host", "device"):  # the second one finds the set stored
        asked_for = asked(tmp_path, "--dataset", f"{photos}.npz", "--feed", feed)
        (tmp_path / "my_cnn.py").write_text(large)
        command = [sys.executable, "-m", "runner", *map(str, asked_for), "--epochs", "1"]
        done = subprocess.run(command, cwd=unreported, preexec_fn=limited, capture_output=True, text=True, timeout=300)
        print(done.stdout + done.stderr)
    results = [json.loads(path.read_text()) for path in tmp_path.glob("results/trials/*/result.json")]
    found = {result["spec"]["task"]["feed"]: result for result in results}
    assert len(results) == len(found) == 2 and len(cached(photos)) == 1
    assert found["device"]["status"] == "out_of_memory"
    assert found["host"]["status"] == "ok"
    assert found["host"]["epochs"][0]["images"] == COUNT
