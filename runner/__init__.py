"""Starts trials and measures them from outside. Imports no adapter and no framework."""
