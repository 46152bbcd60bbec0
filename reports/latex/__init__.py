"""Write tables as LaTeX for a paper."""
