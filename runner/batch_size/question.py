"""Define the questions of `python -m runner batch-size`, in addition to the study."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE = "largest", "fastest", "least-energy", "noise-scale"
ANSWERS = (LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE)


@dataclass(frozen=True)
class Question:
    """The requested answers, and what is trained after them."""

    answers: tuple[str, ...]  # some of ANSWERS
    in_use: int
    sizes: tuple[int, ...]  # to be trained in addition to the found ones
    target_accuracy: float | None
    then_train: bool
    global_batch: int | None
    window_s: float  # of a trial of steps only

    @property
    def trains(self) -> bool:
        """True if trainings follow the searches."""
        return self.then_train or self.target_accuracy is not None

    @property
    def searches(self) -> tuple[str, ...]:
        """Answers that trials of steps search for; a global batch needs the largest, too."""
        asked = {*self.answers, *([LARGEST] if self.global_batch is not None else [])}
        return tuple(name for name in (LARGEST, FASTEST, LEAST_ENERGY) if name in asked)

    @property
    def trained_answers(self) -> tuple[str, ...]:
        """Answers whose batch sizes are trained: all requested ones that are batch sizes."""
        return tuple(name for name in (LARGEST, FASTEST, LEAST_ENERGY) if name in self.answers)
