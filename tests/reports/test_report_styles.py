"""Frameworks and parts can be distinguished with every colour vision, and without colour."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reports.charts import SeriesKind
from reports.drawing.styles import (
    DARK_PAPER,
    LEAST_CONTRAST,
    PARTS,
    choose_part_line_style,
    choose_series_style,
    compute_contrast_ratio,
    lighten_for_dark,
)
from reports.frameworks import choose_styles
from reports.web.page import TEMPLATES
from workloads.records.figures import MEMORY_PARTS

SEVEN = ["tensorflow", "pytorch", "mxnet", "jax", "numpy", "paddle", "tinygrad"]
# Complete protanopia, deuteranopia and tritanopia on linear RGB: Machado, Oliveira, Fernandes, "A Physiologically-based
# Model for Simulation of Color Vision Deficiency", IEEE TVCG 15 (2009), table 1, severity 1.0.
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
CLEARLY = 15.0  # distance in CIELAB (1976); 2.3 is just noticeable
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def seen(colour: str, sight: str) -> np.ndarray:
    """CIELAB of #rrggbb as it is seen with that colour vision."""
    channels = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    relative = XYZ @ np.clip(SIGHTS[sight] @ linear, 0, 1) / WHITE
    root = np.where(relative > (6 / 29) ** 3, np.cbrt(relative), relative / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def apart(one: str, other: str, sight: str) -> float:
    return float(np.linalg.norm(seen(one, sight) - seen(other, sight)))


def test_contrast_and_colours_are_those_of_wcag_and_of_the_simulation() -> None:
    red, green = "#D62728", "#2CA02C"
    assert apart(red, green, "normal") > 100
    assert apart(red, green, "deuteranopia") < CLEARLY / 2
    assert compute_contrast_ratio("#000000", "#FFFFFF") == pytest.approx(21)
    assert compute_contrast_ratio("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("sight", SIGHTS)
def test_frameworks_differ_in_colour_with_every_colour_vision(sight: str) -> None:
    colours = [style.colour for style in choose_styles(SEVEN).values()]
    for one, other in itertools.combinations(colours, 2):
        assert apart(one, other, sight) > CLEARLY, (one, other)


@pytest.mark.parametrize("sight", SIGHTS)
def test_frameworks_and_their_builds_can_be_seen_and_told_apart_on_a_dark_page(sight: str) -> None:
    assert f"--paper: {DARK_PAPER}" in (TEMPLATES / "page.css").read_text()
    looks = choose_styles([*SEVEN[:3], "tensorflow@a", "pytorch@a", "mxnet@a"]).values()
    colours = [lighten_for_dark(style.colour) for style in looks]
    assert min(compute_contrast_ratio(colour, DARK_PAPER) for colour in colours) >= LEAST_CONTRAST
    assert lighten_for_dark("#D55E00") == "#D55E00", "what can be seen stays as it is"
    for one, other in itertools.combinations(colours[::2], 2):
        assert apart(one, other, sight) > CLEARLY, (one, other)


@pytest.mark.parametrize("sight", SIGHTS)
def test_neighbours_in_a_stack_differ_in_colour_with_every_colour_vision(sight: str) -> None:
    for one, other in itertools.combinations(PARTS, 2):
        assert apart(PARTS[one][0], PARTS[other][0], sight) > CLEARLY, (one, other)


def test_every_part_has_a_look_and_a_marker_of_its_own_also_in_grey() -> None:
    assert tuple(PARTS) == tuple(MEMORY_PARTS)
    for (one, (dark, hatch, *_)), (other, (light, lines, *_)) in itertools.combinations(PARTS.items(), 2):
        lightness = abs(seen(dark, "normal")[0] - seen(light, "normal")[0])
        assert hatch != lines or lightness > CLEARLY, (one, other)
    markers = [choose_part_line_style(name).marker for name in PARTS]
    assert len(set(markers)) == len(markers)


def test_no_two_frameworks_look_alike_without_colour() -> None:
    looks = choose_styles(SEVEN).values()
    assert len({style.marker for style in looks}) == len({style.colour for style in looks}) == 7
    known = list(choose_styles(SEVEN[:4]).values())
    assert len({style.line for style in known}) == 4


def test_variants_of_seven_frameworks_share_no_marker_and_are_shades_of_their_framework() -> None:
    looks = choose_styles([*SEVEN, *(f"{name}@fit" for name in SEVEN[4:]), "tensorflow@compiled", "pytorch@compiled"])
    assert len({style.marker for style in looks.values()}) == len({style.colour for style in looks.values()}) == 12
    assert {name: looks[name] for name in SEVEN} == choose_styles(SEVEN)


@pytest.mark.parametrize("framework", SEVEN)
def test_what_was_published_differs_from_what_was_measured_without_colour(framework: str) -> None:
    style = choose_styles(SEVEN)[framework]
    kinds = (SeriesKind.MEASURED, SeriesKind.PUBLISHED_TABLE, SeriesKind.PUBLISHED_CHART, SeriesKind.FIT)
    drawn = [choose_series_style(kind, style) for kind in kinds]
    assert len({(one.line, one.fill == "", one.marker != "", one.width) for one in drawn}) == 4
    measured, table, chart, _ = drawn
    assert table.marker == chart.marker == style.marker
    for one in (table, chart):
        assert seen(on("#FFFFFF", one.colour, one.opacity), "normal")[0] > seen(measured.colour, "normal")[0] + 10


def on(paper: str, colour: str, opacity: float) -> str:
    """The colour #rrggbb that is seen where one lies on another."""
    pairs = ((int(one[place : place + 2], 16) for one in (paper, colour)) for place in (1, 3, 5))
    return "#" + "".join(f"{round(below + opacity * (above - below)):02X}" for below, above in pairs)
