"""Values in other ranges than 8 bits: mapped as the caller says, and lost contrast is counted."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pictured import QUIET, noise, save
from PIL import Image

from runner.data import archive, cache, pixel_values
from runner.data.cache import Wanted
from runner.data.own import ImageChoices
from runner.data.pictures import Decoded, decode
from runner.request.data_sets import find_images
from runner.request.own_data import describe_images
from workloads.datasets import DataError
from workloads.records.job import PixelRange

SHAPE = (32, 32, 3)
TWELVE = np.linspace(0, 4095, 1024).reshape(32, 32).astype(np.uint16)


def seen(path: Path, pixel_range: PixelRange | None = None, channels: int = 3) -> Decoded:
    return decode(str(path), (32, 32, channels), "stretch", pixel_range)


def write_png(path: Path, values: NDArray[Any], bits: int = 16, exif: bytes = b"", clear: Sequence[int] = ()) -> Path:
    """Write a PNG of so many bits per value, (rows, columns, channels), in which the colour `clear` is transparent;
    Pillow writes 16 bits only for grey."""
    rows, columns, channels = values.shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    ones = (values.reshape(rows, -1, 1) >> np.arange(bits)[::-1] & 1).astype(np.uint8)
    lines = b"".join(b"\0" + np.packbits(line).tobytes() for line in ones)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", columns, rows, bits, colour, 0, 0, 0))]
    chunks += [(b"eXIf", exif)] if exif else []
    chunks += [(b"tRNS", struct.pack(f">{len(clear)}H", *clear))] if clear else []
    chunks += [(b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    content = b"\x89PNG\r\n\x1a\n"
    for name, data in chunks:
        content += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    path.write_bytes(content)
    return path


def test_twelve_bits_in_sixteen_have_lost_their_contrast_unless_their_range_is_given(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", TWELVE)
    plain, ranged = seen(path), seen(path, (0, 4095))
    assert plain.pixels.max() == 16 and plain.faded == "values from 40 to 4054 became 0 to 16"
    assert np.abs(ranged.pixels[..., 0] - TWELVE / 4095 * 255).max() <= 0.5 and ranged.faded == ""


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_colours_of_sixteen_bits_are_read_with_both_halves(channels: int, tmp_path: Path) -> None:
    values = np.random.default_rng(channels).integers(0, 4096, (32, 32, channels))
    opaque = channels in (2, 4)
    if opaque:
        values[..., -1] = 65535
    path = write_png(tmp_path / "a.png", values)
    ranged = seen(path, (0, 4095))
    expected = np.broadcast_to((values[..., :-1] if opaque else values) / 4095 * 255, SHAPE)
    assert np.abs(ranged.pixels - expected).max() <= 0.5 and ranged.faded == ""
    assert "became 0 to 16" in seen(path).faded or channels == 2  # over white, by opacity
    values[..., -1] = 0
    assert not opaque or (seen(write_png(tmp_path / "b.png", values), (0, 4095)).pixels == 255).all()


def test_sixteen_bits_are_upright_too(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 3
    values = np.random.default_rng(0).integers(0, 65536, (32, 32, 3))
    plain = seen(write_png(tmp_path / "a.png", values)).pixels
    turned = seen(write_png(tmp_path / "b.png", values, exif=exif.tobytes()[6:])).pixels
    assert np.array_equal(turned, plain[::-1, ::-1])


@pytest.mark.parametrize(("bits", "channels"), [(1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (8, 3), (16, 3)])
def test_a_transparent_colour_is_white_whatever_the_bits(bits: int, channels: int, tmp_path: Path) -> None:
    values = np.random.default_rng(bits).integers(0, 2**bits, (32, 32, channels))
    colour = np.maximum(values[0, 0], 1)
    values[:3] = colour
    values[3] = colour ^ 1  # differs in its lowest bit alone
    hidden = (values == colour).all(axis=2)
    whole = seen(write_png(tmp_path / "a.png", values, bits))
    path = write_png(tmp_path / "b.png", values, bits, clear=colour.tolist())
    for pixel_range in (None, (0, 2**bits - 1)):
        found = seen(path, pixel_range)
        assert (found.pixels[hidden] == 255).all() and found.faded == whole.faded
        assert np.array_equal(found.pixels[~hidden], whole.pixels[~hidden])


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_range_is_of_the_files_own_values_where_they_have_few_bits(bits: int, tmp_path: Path) -> None:
    values = np.random.default_rng(bits).integers(0, 2**bits, (32, 32, 1))
    path, most = write_png(tmp_path / "a.png", values, bits), 2**bits - 1
    assert np.array_equal(seen(path, (0, most)).pixels, seen(path).pixels)
    for pixel_range in ((0.0, 2.0 * most), (most / 4, most / 2)):
        expected = pixel_values.convert_to_bytes(values, pixel_range)
        assert np.array_equal(seen(path, pixel_range).pixels, np.broadcast_to(expected, SHAPE))


def clear(folder: Path) -> Path:
    return save(folder / "a.png", np.concatenate([noise(32, 32), np.zeros((32, 32, 1), np.uint8)], axis=2))


def white_on_nothing(folder: Path) -> Path:
    pixels = np.full((32, 32, 4), 255, np.uint8)
    pixels[..., 3] = noise(32, 32, channels=1)
    return save(folder / "a.png", pixels)


def under_black_ink(folder: Path) -> Path:
    pixels = np.full((32, 32, 4), 255, np.uint8)
    pixels[..., 3] = noise(32, 32, channels=1)
    path = folder / "a.jpg"
    Image.fromarray(pixels, "CMYK").save(path, quality=100)
    return path


def fine_lines(folder: Path) -> Path:
    lines = np.zeros((512, 512), np.uint8)
    lines[::2] = 255
    return save(folder / "a.png", lines)


def equally_bright(folder: Path) -> Path:
    red = noise(32, 32, channels=1) > 127
    pixels = np.where(red[..., None], np.array([255, 0, 0]), np.array([0, 130, 0])).astype(np.uint8)
    return save(folder / "a.png", pixels)


@pytest.mark.parametrize("made", [clear, white_on_nothing, under_black_ink, fine_lines])
def test_whatever_takes_the_contrast_is_seen(made: Any, tmp_path: Path) -> None:
    assert seen(made(tmp_path)).faded


def test_colours_that_are_one_grey_are_seen_where_the_network_takes_grey(tmp_path: Path) -> None:
    path = equally_bright(tmp_path)
    assert seen(path, channels=1).faded and not seen(path).faded


def test_what_had_no_contrast_has_lost_none(tmp_path: Path) -> None:
    for name, value in (("black", 0), ("white", 255), ("grey", 90)):
        assert not seen(save(tmp_path / f"{name}.png", np.full((32, 32, 3), value, np.uint8))).faded
    dim = noise(32, 32) // 16
    assert not seen(save(tmp_path / "dim.png", dim)).faded
    palette = Image.fromarray(noise(32, 32)).quantize(16)
    palette.save(tmp_path / "palette.png")
    assert not seen(tmp_path / "palette.png").faded
    Image.fromarray(noise(32, 32, channels=1) > 127).save(tmp_path / "bits.png")
    assert not seen(tmp_path / "bits.png").faded


def test_a_few_hot_pixels_hide_nothing(tmp_path: Path) -> None:
    hot = TWELVE.copy()
    hot[0, :3] = 65535
    assert seen(save(tmp_path / "a.png", hot)).faded


def test_a_range_maps_eight_bits_as_well_and_ends_at_0_and_255(tmp_path: Path) -> None:
    pixels = np.concatenate([noise(32, 32), np.full((32, 32, 1), 255, np.uint8)], axis=2)
    pixels[:3, :, 3] = 0
    ranged = seen(save(tmp_path / "a.png", pixels), (16, 235)).pixels
    assert (ranged[:3] == 255).all()
    assert np.array_equal(ranged[3:], pixel_values.convert_to_bytes(pixels[3:, :, :3], (16, 235)))
    grey = seen(save(tmp_path / "b.png", pixels[..., 0]), (0, 4095))
    assert grey.faded and grey.pixels.max() == 16
    values = np.array([-5, 10, 15, 20, 900])
    assert pixel_values.convert_to_bytes(values, (10, 20)).tolist() == [0, 0, 128, 255, 255]


def arrays(path: Path, x: NDArray[Any]) -> Path:
    np.savez(path, x_train=x, y_train=np.arange(len(x)) % 2, x_test=x[:2], y_test=[0, 1])
    return path


@pytest.mark.parametrize(
    ("kind", "scale", "pixel_range"),
    [
        ("<u2", 1.0, (0, 4095)),
        (">u2", 1.0, (0, 4095)),
        ("<f4", 1 / 4095, (0, 1)),
        ("<f8", 2 / 4095, (0, 2)),
        ("<i4", 1.0, (0, 4095)),
    ],
)
def test_arrays_of_other_types_become_images_by_their_range(
    kind: str, scale: float, pixel_range: tuple[float, float], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).integers(0, 4096, (4, 8, 8, 3))
    images = find_images(arrays(tmp_path / "mine.npz", (x * scale).astype(kind)), ImageChoices(pixel_range=pixel_range))
    cached = cache.provide_arrays(
        Wanted(images, images.survey(QUIET), (8, 8, 3), "stretch", False), tmp_path / "cache", QUIET
    )
    assert np.abs(cached.split("train")[0] - x / 4095 * 255).max() <= 0.501 and cached.findings.faded == 0


def test_arrays_that_lose_their_contrast_by_a_range_are_counted(tmp_path: Path) -> None:
    path = arrays(tmp_path / "mine.npz", np.random.default_rng(0).integers(0, 4096, (4, 8, 8, 3)).astype(np.uint16))
    keys = set()
    for pixel_range, faded in (((0, 65535), 6), ((0, 4095), 0)):
        images = find_images(path, ImageChoices(pixel_range=pixel_range))
        wanted = Wanted(images, images.survey(QUIET), (8, 8, 3), "stretch", False)
        cached = cache.provide_arrays(wanted, tmp_path / "cache", QUIET)
        assert cached.findings.faded == faded
        keys.add(cached.files["train_images"].path)
    assert len(keys) == 2


def test_values_of_eight_bits_that_use_almost_none_of_them_are_said_with_the_range_they_have(tmp_path: Path) -> None:
    def decoded(x: NDArray[Any], pixel_range: PixelRange | None = None) -> tuple[int, list[str], int]:
        path = arrays(tmp_path / "mine.npz", x.astype(np.uint8))
        images = find_images(path, ImageChoices(pixel_range=pixel_range))
        wanted = Wanted(images, images.survey(QUIET), (8, 8, 1), "stretch", False)
        cached = cache.provide_arrays(wanted, tmp_path / "cache", QUIET)
        lines = [line for line in describe_images(images, cached) if "exceeds" in line]
        return cached.findings.dim, lines, int(cached.split("train")[0].max())

    binary = np.random.default_rng(0).integers(0, 2, (4, 8, 8))
    dim, lines, _ = decoded(binary)
    assert dim == 6 and lines == [
        "no value of 6 images exceeds 1 of 255, so the network gets almost black images; --pixel-range 0 1 makes the "
        "highest value white"
    ]
    assert decoded(binary, (0, 1)) == (0, [], 255)
    assert decoded(binary * 31)[0] == 6
    assert decoded(binary * 32)[0] == 0  # dark photographs have brighter spots
    binary[3] *= 200
    assert decoded(binary)[0] == 0  # a picture that is brighter says that 255 is white
    assert decoded(binary * 0)[0] == 0


def test_twelve_bits_in_sixteen_are_not_said_to_be_dim_as_well(tmp_path: Path) -> None:
    path = arrays(tmp_path / "mine.npz", np.random.default_rng(0).integers(0, 4096, (4, 8, 8, 3)).astype(np.uint16))
    images = find_images(path, ImageChoices(pixel_range=(0, 65535)))
    wanted = Wanted(images, images.survey(QUIET), (8, 8, 3), "stretch", False)
    findings = cache.provide_arrays(wanted, tmp_path / "cache", QUIET).findings
    assert (findings.faded, findings.dim) == (6, 0)


@pytest.mark.parametrize(
    ("x", "advice"),
    [
        (np.full((4, 8, 8), 4000, np.uint16), "--pixel-range 0 4095, or save (x_train * (255 / 4095)).round()"),
        (np.full((4, 8, 8), 0.5), "--pixel-range 0 1, or save (x_train * 255).round().astype('uint8')"),
        (np.full((4, 8, 8), 200.0, np.float32), "--pixel-range 0 255, or save (x_train * (255 / 255)).round()"),
        (
            np.linspace(-1, 1, 256).reshape(4, 8, 8),
            "--pixel-range -1 1, or save ((x_train.astype('float64') + 1) * (255 / 2)).round()",
        ),
        (np.full((4, 8, 8), 70000, np.int32), "--pixel-range 0 70000"),
        (np.zeros((4, 8, 8), bool), "--pixel-range 0 1"),
    ],
)
def test_arrays_of_other_types_are_told_the_range_that_they_have(x: NDArray[Any], advice: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as told:
        find_images(arrays(tmp_path / "mine.npz", x))
    assert advice in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("uint16", 0, 4095),
        ("uint16", 0, 65535),
        ("int8", -100, 100),
        ("int8", -128, 127),
        ("int16", -1024, 3071),
        ("int16", -32768, 32767),
        ("int32", -(2**31), 2**31 - 1),
        ("int32", -1234567, -1234560),
        ("float32", -1, 1),
        ("float32", 0, 1),
        ("float32", -0.1, 1e6),
        ("float16", -1, 1),
    ],
)
def test_the_advised_expression_and_the_advised_range_are_the_same(kind: str, low: float, high: float) -> None:
    x = np.linspace(low, high, 4096).astype(kind)
    advice = archive.range_advice("x", float(x.min()), float(x.max()), x.dtype.kind == "f")
    told = re.search(r"--pixel-range (\S+) (\S+), or save (.+)", advice)
    assert told is not None
    expected = pixel_values.convert_to_bytes(x, (float(told[1]), float(told[2])))
    saved = eval(told[3], {"x": x})
    assert saved.dtype == np.uint8 and np.abs(saved.astype(int) - expected).max() <= 1  # halves may round either way
    if low < 0:
        assert (expected.min(), expected.max()) == (0, 255)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("pixel_range", [None, (0.0, 1.0)])
def test_values_that_are_no_finite_numbers_are_refused(
    value: float, pixel_range: PixelRange | None, tmp_path: Path
) -> None:
    x = np.full((4, 8, 8), 0.5)
    x[2, 3, 3] = value

    def decode() -> None:
        images = find_images(arrays(tmp_path / "mine.npz", x), ImageChoices(pixel_range=pixel_range))
        cache.provide_arrays(
            Wanted(images, images.survey(QUIET), (8, 8, 3), "stretch", False), tmp_path / "cache", QUIET
        )

    with pytest.raises(DataError, match="values that are not finite"):
        decode()
