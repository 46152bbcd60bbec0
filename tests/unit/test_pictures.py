"""A picture becomes the pixels that a person sees, at the size that is asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from each import for_each
from pictured import noise, save
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from runner.data import pictures
from runner.data.own import choose_stored_size
from runner.data.pictures import UnreadablePicture, fit_images, look
from workloads.datasets import Images
from workloads.records.job import Fit, PixelRange

PIXELS = noise(6, 4)
SHAPE = (6, 4, 3)


def decoded(path: str, shape: tuple[int, int, int], fit: Fit, pixel_range: PixelRange | None = None) -> Images:
    return pictures.decode(path, shape, fit, pixel_range).pixels


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".webp"])
def test_a_picture_of_the_size_keeps_its_pixels(suffix: str, tmp_path: Path) -> None:
    options = {"lossless": True} if suffix == ".webp" else {}
    path = save(tmp_path / f"a{suffix}", PIXELS, **options)
    assert np.array_equal(decoded(str(path), SHAPE, "stretch"), PIXELS)
    assert look(str(path)).size == (6, 4)


def test_a_jpeg_is_what_pillow_makes_of_it(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg", PIXELS)
    assert np.array_equal(decoded(str(path), SHAPE, "crop"), np.asarray(Image.open(path)))


def test_what_a_file_is_called_does_not_decide_what_it_is(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", PIXELS).rename(tmp_path / "a.jpg")
    assert np.array_equal(decoded(str(path), SHAPE, "stretch"), PIXELS)


ORIENTED = [
    (1, PIXELS),
    (2, PIXELS[:, ::-1]),
    (3, PIXELS[::-1, ::-1]),
    (4, PIXELS[::-1]),
    (5, PIXELS.swapaxes(0, 1)),
    (6, np.rot90(PIXELS)),
    (7, np.rot90(PIXELS.swapaxes(0, 1), 2)),
    (8, np.rot90(PIXELS, -1)),
]


@pytest.mark.parametrize(("orientation", "stored"), ORIENTED)
def test_a_picture_is_upright_as_its_exif_says(orientation: int, stored: np.ndarray, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "a.png", np.ascontiguousarray(stored), exif=exif)
    assert look(str(path)).size == (6, 4)
    assert np.array_equal(decoded(str(path), SHAPE, "stretch"), PIXELS)


@pytest.mark.parametrize(("orientation", "stored"), ORIENTED)
def test_sixteen_bits_are_upright_as_their_xmp_says(orientation: int, stored: np.ndarray, tmp_path: Path) -> None:
    xmp = PngInfo()
    xmp.add_itxt("XML:com.adobe.xmp", f'<rdf:Description tiff:Orientation="{orientation}"/>')
    grey = np.ascontiguousarray(stored[..., 0]).astype(np.uint16) * np.uint16(257)
    path = save(tmp_path / "a.png", grey, pnginfo=xmp)
    assert look(str(path)).size == (6, 4)
    assert np.array_equal(decoded(str(path), (6, 4, 1), "stretch")[..., 0], PIXELS[..., 0])


@for_each("damaged", [bytes(16), b"II*\0"])
def test_a_picture_whose_exif_is_damaged_is_as_it_is_stored(damaged: bytes, tmp_path: Path) -> None:
    exif = b"Exif\0\0" + damaged
    photo = save(tmp_path / "a.jpg", PIXELS, dpi=(72, 72), exif=exif)  # without a density, Pillow passes over it
    assert look(str(photo)).size == (6, 4)
    assert np.array_equal(decoded(str(photo), SHAPE, "crop"), np.asarray(Image.open(photo)))
    path = save(tmp_path / "a.png", PIXELS, exif=exif)
    assert look(str(path)).size == (6, 4)
    assert np.array_equal(decoded(str(path), SHAPE, "stretch"), PIXELS)


def test_grey_transparent_and_palette_pictures_are_shown_as_they_are_meant(tmp_path: Path) -> None:
    grey = noise(6, 4, channels=1)
    path = save(tmp_path / "a.png", grey)
    assert np.array_equal(decoded(str(path), SHAPE, "stretch"), np.repeat(grey[..., None], 3, axis=2))
    assert np.array_equal(decoded(str(path), (6, 4, 1), "stretch")[..., 0], grey)
    colour = save(tmp_path / "b.png", PIXELS)
    weighted = PIXELS @ np.array([0.299, 0.587, 0.114])
    assert np.abs(decoded(str(colour), (6, 4, 1), "stretch")[..., 0] - weighted).max() <= 1
    pixels = np.concatenate([PIXELS, np.full((6, 4, 1), 255, np.uint8)], axis=2)
    pixels[:3, ..., 3] = 0
    path = save(tmp_path / "2" / "a.png", pixels)
    seen = decoded(str(path), SHAPE, "stretch")
    assert (seen[:3] == 255).all() and np.array_equal(seen[3:], PIXELS[3:])
    grey = np.stack([PIXELS[..., 0], pixels[..., 3]], axis=2)
    seen = decoded(str(save(tmp_path / "2" / "b.png", grey)), (6, 4, 1), "stretch")[..., 0]
    assert (seen[:3] == 255).all() and np.array_equal(seen[3:], PIXELS[3:, :, 0])


def test_a_palette_with_a_transparent_colour_is_shown_by_its_colours(tmp_path: Path) -> None:
    image = Image.new("P", (4, 6), 0)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.paste(1, (0, 0, 2, 6))
    image.save(tmp_path / "a.png", transparency=0)
    seen = decoded(str(tmp_path / "a.png"), SHAPE, "stretch")
    assert (seen[:, :2] == [200, 100, 50]).all() and (seen[:, 2:] == 255).all()
    image.save(tmp_path / "b.png")
    assert (decoded(str(tmp_path / "b.png"), SHAPE, "stretch")[:, 2:] == [10, 20, 30]).all()


def test_cmyk_sixteen_bits_and_one_bit_become_rgb(tmp_path: Path) -> None:
    Image.new("CMYK", (4, 6), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=100)
    seen = decoded(str(tmp_path / "a.jpg"), SHAPE, "stretch").astype(int)
    assert np.abs(seen - [255, 0, 0]).max() <= 3
    wide = np.linspace(0, 65535, 24).reshape(6, 4).round().astype(np.uint16)
    path = save(tmp_path / "2" / "a.png", wide)
    assert np.abs(decoded(str(path), (6, 4, 1), "stretch")[..., 0] - wide / 257).max() <= 0.5
    Image.fromarray(PIXELS[..., 0] > 127).save(tmp_path / "one-bit.png")
    seen = decoded(str(tmp_path / "one-bit.png"), (6, 4, 1), "stretch")[..., 0]
    assert np.array_equal(seen, np.where(PIXELS[..., 0] > 127, 255, 0))


def test_shrinking_sees_every_pixel() -> None:
    fine = np.indices((64, 64)).sum(axis=0) % 2 * 255  # a chess board: without antialiasing black or white
    seen = fit_images(np.repeat(fine.astype(np.uint8)[None, ..., None], 3, axis=3), (8, 8, 3), "stretch")
    assert np.abs(seen.astype(int) - 127.5).max() <= 8


QUARTERS = np.kron(np.arange(1, 9, dtype=np.uint8).reshape(2, 4) * 30, np.ones((8, 8), np.uint8))[None, ..., None]


def test_crop_takes_the_middle_and_stretch_and_pad_take_all() -> None:
    inside = slice(1, -1)  # at the edges of the middle part the filter looks at its neighbours
    cropped, middle = fit_images(QUARTERS, (8, 8, 1), "crop"), fit_images(QUARTERS[:, :, 8:24], (8, 8, 1), "stretch")
    assert np.array_equal(cropped[:, :, inside], middle[:, :, inside])
    upright = QUARTERS.swapaxes(1, 2)
    cropped, middle = fit_images(upright, (8, 8, 1), "crop"), fit_images(upright[:, 8:24], (8, 8, 1), "stretch")
    assert np.array_equal(cropped[:, inside], middle[:, inside])
    padded = fit_images(QUARTERS, (4, 4, 1), "pad")
    assert (padded[:, [0, 3]] == 0).all()
    assert np.array_equal(padded[:, 1:3], fit_images(QUARTERS, (2, 4, 1), "stretch"))
    stretched = fit_images(QUARTERS, (2, 2, 1), "stretch")[0, ..., 0]
    assert np.abs(stretched.astype(int) - [[45, 105], [165, 225]]).max() <= 25


@for_each("fit", ["stretch", "crop", "pad"])
@for_each("rows, columns", [(2, 301), (301, 2), (7, 5), (5, 7), (3, 3)])
@for_each("shape", [(4, 4, 3), (9, 2, 1), (1, 6, 3)])
def test_every_proportion_fits(rows: int, columns: int, shape: tuple[int, int, int], fit: str) -> None:
    assert fit_images(noise(rows, columns)[None], shape, fit).shape == (1, *shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "fit", "stored"),
    [
        ([(32, 32)], "stretch", (32, 32)),
        ([(32, 32)], "crop", (32, 16)),  # the target's proportions
        ([(32, 32)], "pad", (64, 32)),
        ([(32, 500)], "stretch", (32, 100)),
        ([(32, 500)], "crop", (32, 16)),
        ([(32, 500)], "pad", (200, 100)),
        ([(20, 30), (300, 8)], "stretch", (200, 30)),
        ([(500, 500)], "crop", (200, 100)),
        ([(500, 500)], "pad", (200, 100)),
    ],
)
def test_pictures_are_stored_no_larger_than_they_are_and_no_larger_than_the_network_takes_them(
    sizes: list[tuple[int, int]], fit: str, stored: tuple[int, int]
) -> None:
    assert choose_stored_size(sizes, (200, 100, 3), fit) == stored  # type: ignore[arg-type]


def broken(path: Path) -> dict[str, bytes]:
    whole = save(path / "whole.png", noise(40, 40)).read_bytes()
    photo = save(path / "whole.jpg", noise(40, 40)).read_bytes()
    return {
        "text": b"not an image",
        "empty": b"",
        "cut.png": whole[: len(whole) // 2],
        "cut.jpg": photo[: len(photo) // 2],
        "altered": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:],
        "pixel": save(path / "pixel.png", noise(1, 1)).read_bytes(),
        "gif": save(path / "a.gif", noise(8, 8)).read_bytes(),
    }


@pytest.mark.parametrize("name", ["text", "empty", "cut.png", "cut.jpg", "altered", "pixel", "gif"])
def test_what_cannot_be_decoded_says_why_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(broken(tmp_path)[name])

    def seen() -> None:
        look(str(path))
        decoded(str(path), SHAPE, "stretch")

    with pytest.raises(UnreadablePicture) as told:
        seen()
    assert str(told.value) and "\n" not in str(told.value)


def test_a_decompression_bomb_is_not_decoded(tmp_path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    with pytest.raises(UnreadablePicture, match="exceeds limit"):
        look(str(tmp_path / "bomb.png"))
    with pytest.raises(UnreadablePicture, match="exceeds limit"):
        decoded(str(tmp_path / "bomb.png"), SHAPE, "stretch")


def test_a_file_that_is_gone_is_no_damaged_picture(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file.*gone\.png"):
        decoded(str(tmp_path / "gone.png"), SHAPE, "stretch")
