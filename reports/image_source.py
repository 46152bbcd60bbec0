"""Describe what was done to the images before any worker saw them."""

from __future__ import annotations

from workloads.records.job import ImageFindings, ImageSource

FITS = {
    "stretch": "stretched, whatever their proportions",
    "crop": "the largest part in the middle",
    "pad": "all of it on black",
}


def source_words(source: ImageSource) -> dict[str, str]:
    """Return the parts of a condition that describe the images."""
    words, stored = dict[str, str](), f"stored as {source.rows} x {source.columns}"
    if source.enlarged:
        stored += " and enlarged by the network's first layer, bilinear, on the device"
    words["images"] = f"{source.train} to train on and {source.test} to test with"
    if source.content:
        words["images"] += f", digest {source.content}"
    words["fit"] = f"{source.fit} ({FITS.get(source.fit, source.fit)}), bilinear, {stored}"
    if source.content:
        words["test split"] = "one in five of each class, drawn by the runner" if source.drawn_test else "as given"
        if source.test_folder:
            words["test split"] += f", in {source.test_folder}/"
    if source.pixel_range:
        low, high = source.pixel_range
        words["pixel range"] = f"{low:g} becomes 0, {high:g} becomes 255"
    if source.skipped:
        words["left out"] = f"{source.skipped} that could not be decoded"
    if source.findings and (found := finding_words(source.findings)):
        words["doubtful images"] = ", ".join(found)
    return words


def finding_words(found: ImageFindings) -> list[str]:
    """List findings of decoding in phrases; none if no image is doubtful."""
    phrases = {
        "of the test identical to training images": found.tested_on_trained,
        "identical to one of another class": found.two_labels,
        "of train identical to an earlier one": found.repeated_train,
        "of the test identical to an earlier one": found.repeated_test,
        "without nearly all of their files' contrast": found.faded,
    }
    return [f"{count} {phrase}" for phrase, count in phrases.items() if count]
