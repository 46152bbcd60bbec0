"""A model that code of the caller's makes, in place of a network: trained and measured, held against nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnCode:
    """A function (classes) -> the framework's model, in a file that is the trial's input `model`."""

    framework: str  # of which the model is
    file: str  # its name
    function: str
    digest: str  # of the file
    classes: int
    input_shape: tuple[int, ...]  # (h, w, c) of the images, whatever the framework's own order of axes is

    @property
    def words(self) -> str:
        """A clause."""
        shape = " x ".join(map(str, self.input_shape))
        return f"{self.file}:{self.function}, digest {self.digest}, images of {shape}, {self.classes} classes"
