"""Builds a trial's result from its files."""
