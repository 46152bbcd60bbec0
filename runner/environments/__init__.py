"""Places where workers run: virtual environments, images, containers."""
