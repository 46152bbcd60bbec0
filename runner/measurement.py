"""The version of the measurement: results of different versions are shown in separate tables."""

MEASUREMENT_VERSION = 6
"""Raise it by one when the same worker on the same machine would get other figures, or the same under another meaning:
another window, other samples or another way from samples to a figure, another start of the worker, other events in the
measured loop. Not for words, checks, speed of the runner or figures that are new. CHANGELOG.md says what each changed.
"""
