"""Tables as LaTeX for a paper."""
