"""WHO starts it, when, and measures it from outside. Imports no adapter and no framework."""
