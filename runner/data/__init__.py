"""Images of one's own, of a folder or an array file: found, decoded once, kept as arrays."""
