"""Environments of workers: virtual environments, images, containers."""
