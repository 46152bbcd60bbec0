"""One static page over any number of publications and results folders."""
