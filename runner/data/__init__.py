"""Custom images, from a folder or an array file: found, decoded once, kept as arrays."""
