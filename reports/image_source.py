"""What was made of the images before any worker saw them, in words."""

from __future__ import annotations

from workloads.records.job import ImageSource

FITS = {
    "stretch": "stretched, whatever their proportions",
    "crop": "the largest part in the middle",
    "pad": "all of it on black",
}


def source_words(source: ImageSource) -> dict[str, str]:
    """Parts of a condition."""
    words, stored = dict[str, str](), f"stored as {source.rows} x {source.columns}"
    if source.enlarged:
        stored += " and enlarged by the network's first layer, bilinear, on the device"
    words["images"] = f"{source.train} to train on and {source.test} to test with"
    if source.content:
        words["images"] += f", digest {source.content}"
    words["fit"] = f"{source.fit} ({FITS.get(source.fit, source.fit)}), bilinear, {stored}"
    if source.content:
        words["test split"] = "one in five of each class, drawn by the runner" if source.drawn_test else "as given"
    if source.skipped:
        words["left out"] = f"{source.skipped} that could not be decoded"
    return words
