"""Where workers run: virtual environments, images, containers."""
