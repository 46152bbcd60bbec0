"""What `python -m runner batch-size` is asked beside the study."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE = "largest", "fastest", "least-energy", "noise-scale"
ANSWERS = (LARGEST, FASTEST, LEAST_ENERGY, NOISE_SCALE)


@dataclass(frozen=True)
class Question:
    """The answers that are wanted, and what is trained behind them."""

    answers: tuple[str, ...]  # of ANSWERS
    in_use: int
    sizes: tuple[int, ...]  # to be trained beside the found ones
    target_accuracy: float | None
    then_train: bool
    global_batch: int | None
    window_s: float  # of a trial of steps alone

    @property
    def trains(self) -> bool:
        """True if trainings follow the searches."""
        return self.then_train or self.target_accuracy is not None

    @property
    def searches(self) -> tuple[str, ...]:
        """The answers that trials of steps look for; a global batch asks for the largest, too."""
        asked = {*self.answers, *([LARGEST] if self.global_batch is not None else [])}
        return tuple(name for name in (LARGEST, FASTEST, LEAST_ENERGY) if name in asked)

    @property
    def trained_answers(self) -> tuple[str, ...]:
        """The answers whose batch sizes are trained: all batch sizes that were asked for."""
        return tuple(name for name in (LARGEST, FASTEST, LEAST_ENERGY) if name in self.answers)
