"""Loops of Keras on JAX. JAX reads the number of threads before it is imported."""

from loops.keras_loops import FEEDS, LOOPS, TRAINERS

__all__ = ["FEEDS", "LOOPS", "TRAINERS"]
