"""A model that the caller's code makes, in place of a network: trained and measured, compared with nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnCode:
    """A function (classes) -> the framework's model, in a file that is the trial's input `model`."""

    framework: str  # the model's framework
    file: str  # its name
    function: str
    digest: str  # of the file
    classes: int
    input_shape: tuple[int, ...]  # (h, w, c) of the images, whatever the framework's order of axes is

    @property
    def words(self) -> str:
        """Description as a clause."""
        shape = " x ".join(map(str, self.input_shape))
        return f"{self.file}:{self.function}, digest {self.digest}, images of {shape}, {self.classes} classes"
