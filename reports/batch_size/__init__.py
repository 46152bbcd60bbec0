"""Show the answers of `python -m runner batch-size` as a table, a recommendation, a picture and a page."""
