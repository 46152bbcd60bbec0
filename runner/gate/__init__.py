"""Checks that every framework computes the same."""
